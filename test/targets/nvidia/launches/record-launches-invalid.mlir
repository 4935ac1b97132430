// RUN: split-file %s %t
// RUN: not stepwell-opt %t/grid.mlir --stepwell-record-launches 2>&1 | FileCheck %t/grid.mlir
// RUN: not stepwell-opt %t/allocation.mlir --stepwell-record-launches 2>&1 | FileCheck %t/allocation.mlir

//--- grid.mlir
// A launch plan holds numbers: grids do not depend on data.
module attributes {gpu.container_module} {
  func.func private @negative_grid(%x: memref<64xf32>, %blocks: index) attributes {stepwell.kernel = {class = "elementwise"}} {
    %c1 = arith.constant 1 : index
    // CHECK: grid.mlir:[[# @LINE + 1]]:{{.*}} 'gpu.launch_func' op: a size or an offset of a launch is not a constant
    gpu.launch_func @code::@k blocks in (%blocks, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<64xf32>)
    return
  }
  gpu.module @code {
    llvm.func @k() attributes {gpu.kernel} {
      llvm.return
    }
  }
}

//--- allocation.mlir
// Nothing allocates while the model runs: memory is that of an argument.
module attributes {gpu.container_module} {
  func.func private @negative_allocation() attributes {stepwell.kernel = {class = "elementwise"}} {
    %c1 = arith.constant 1 : index
    // CHECK: allocation.mlir:[[# @LINE + 1]]:{{.*}} 'memref.alloc' op makes a launch operand: expected a view of an argument
    %x = memref.alloc() : memref<64xf32>
    gpu.launch_func @code::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<64xf32>)
    return
  }
  gpu.module @code {
    llvm.func @k() attributes {gpu.kernel} {
      llvm.return
    }
  }
}
