// RUN: split-file %s %t
// RUN: stepwell-opt %t/gpu.mlir --split-input-file --verify-diagnostics '--stepwell-check-phase=phase=gpu target=cuda:sm_80'
// RUN: stepwell-opt %t/nvvm.mlir --split-input-file --verify-diagnostics '--stepwell-check-phase=phase=nvvm target=cuda:sm_80'

//--- gpu.mlir
// Ops on memory are code for a GPU, and the host may run anything that neither allocates nor makes a tensor.
func.func @main(%x: memref<4xf32>, %c: f32) {
  linalg.fill ins(%c : f32) outs(%x : memref<4xf32>)
  return
}
gpu.module @code {
  gpu.func @k(%x: memref<4xf32>) kernel {
    %c0 = arith.constant 0 : index
    %0 = memref.load %x[%c0] : memref<4xf32>
    gpu.return
  }
}

// -----

func.func @main(%x: memref<4xf32>) {
  return
}
gpu.module @code {
  gpu.func @k(%x: memref<4xf32>, %c: f32) kernel {
    // expected-error@below {{'linalg.fill' op cannot be part of code for a GPU}}
    linalg.fill ins(%c : f32) outs(%x : memref<4xf32>)
    gpu.return
  }
}

// -----

func.func @main(%x: memref<4xf32>) {
  return
}
gpu.module @code {
  gpu.func @k() kernel {
    // expected-error@below {{'tensor.empty' op cannot be part of code for a GPU}}
    %0 = tensor.empty() : tensor<4xf32>
    gpu.return
  }
}

// -----

func.func @main() {
  // expected-error@below {{'memref.alloc' op allocates while the model runs}}
  %0 = memref.alloc() : memref<4xf32>
  return
}

//--- nvvm.mlir
// The host's code is a launch plan by now, and may be in any dialect.
func.func @main(%x: memref<4xf32>) {
  return
}
gpu.module @code {
  llvm.func @k() attributes {gpu.kernel, nvvm.kernel} {
    %0 = nvvm.read.ptx.sreg.tid.x : i32
    llvm.return
  }
}

// -----

gpu.module @code {
  llvm.func @k() {
    // expected-error@below {{'arith.constant' op was not lowered to the LLVM dialect}}
    %0 = arith.constant 0 : i32
    llvm.return
  }
}

// -----

// NVIDIA's libdevice is not linked.
gpu.module @code {
  // expected-error@below {{@__nv_erff is called, but is not defined for GPUs}}
  llvm.func @__nv_erff(f32) -> f32
  llvm.func @k(%x: f32) {
    %0 = llvm.call @__nv_erff(%x) : (f32) -> f32
    llvm.return
  }
}
