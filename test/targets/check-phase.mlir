// RUN: split-file %s %t
// RUN: stepwell-opt %t/import.mlir --split-input-file --verify-diagnostics --stepwell-check-phase
// RUN: stepwell-opt %t/graph.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=graph
// RUN: stepwell-opt %t/kernels.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=kernels
// RUN: stepwell-opt %t/tiled.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=tiled
// RUN: stepwell-opt %t/vector.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=vector
// RUN: stepwell-opt %t/memref.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=memref
// RUN: stepwell-opt %t/llvm.mlir --split-input-file --verify-diagnostics --stepwell-check-phase=phase=llvm
// RUN: not stepwell-opt %t/unchanged.mlir --stepwell-check-phase=phase=nvvm 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not stepwell-opt %t/unchanged.mlir '--stepwell-check-phase=phase=vector target=cuda:sm_80' 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: stepwell-opt %t/unchanged.mlir --stepwell-check-phase=phase=graph | FileCheck %s

// CPU: there is no phase 'nvvm' for cpu; the phases are import, graph, kernels, tiled, vector, memref, llvm
// GPU: there is no phase 'vector' for cuda:sm_80; the phases are import, graph, kernels, tiled, gpu, nvvm

//--- unchanged.mlir
// The pass only looks: it keeps even ops that have no effect.
// CHECK: "stepwell.relu"
// CHECK-NEXT: return %arg0
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

//--- import.mlir
// A line of a file is a location, and shapes need not be known yet.
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "stepwell.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32> loc("Relu_7")
  %1 = "stepwell.relu"(%0) : (tensor<?xf32>) -> tensor<?xf32> loc("model.py":7:1)
  return %1 : tensor<?xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@unknown {{'stepwell.relu' op has no location that names the model's op}}
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
  return %0 : tensor<4xf32>
}

// -----

// expected-error@below {{there is no function @main}}
module {
}

//--- graph.mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error@below {{'stepwell.relu' op still has a dynamic shape, tensor<?xf32>}}
  %0 = "stepwell.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

//--- kernels.mlir
// A part that a kernel computes where the insertion puts it.
func.func private @part(%out: tensor<2xf32>) -> tensor<2xf32> attributes {stepwell.kernel = {}}

func.func @main() -> tensor<4xf32> {
  %whole = tensor.empty() : tensor<4xf32>
  %place = tensor.extract_slice %whole[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %0 = call @part(%place) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = tensor.insert_slice %0 into %whole[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Parameters are read where they are, and another shape of the same memory is no work.
func.func @main() -> tensor<2x2xf32> {
  %0 = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

func.func private @part(%out: tensor<2xf32>) -> tensor<2xf32> attributes {stepwell.kernel = {}}

func.func @main() -> tensor<4xf32> {
  %whole = tensor.empty() : tensor<4xf32>
  %place = tensor.extract_slice %whole[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %0 = call @part(%place) : (tensor<2xf32>) -> tensor<2xf32>
  // The kernel writes another part of the tensor.
  // expected-error@below {{inserts a tensor that was not computed in place}}
  %1 = tensor.insert_slice %0 into %whole[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %whole = tensor.empty() : tensor<4xf32>
  // expected-error@below {{inserts a tensor that was not computed in place}}
  %1 = tensor.insert_slice %x into %whole[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{'stepwell.relu' op is outside of every kernel}}
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{'linalg.exp' op is outside of every kernel}}
  %0 = linalg.exp ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A library has no @main, but its kernels are checked.
module attributes {stepwell.library} {
  func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {}} {
    // expected-error@below {{'stepwell.relu' op was not lowered to linalg}}
    %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

//--- tiled.mlir
// Only kernels have schedules, and declarations are kernels that another module holds.
func.func private @helper() {
  return
}
func.func private @declared() attributes {stepwell.kernel = {}}
func.func private @scheduled() attributes {stepwell.kernel = {}, stepwell.schedule = {name = "rows"}} {
  return
}

// -----

// expected-error@below {{kernel @k has no schedule}}
func.func private @k() attributes {stepwell.kernel = {}} {
  return
}

//--- vector.mlir
func.func private @k(%out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {}} {
  return %out : tensor<4xf32>
}

// -----

func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {}} {
  // expected-error@below {{'linalg.exp' op was not vectorised}}
  %0 = linalg.exp ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- memref.mlir
func.func @main(%x: memref<4xf32>) {
  return
}

// -----

func.func @main() {
  // expected-error@below {{'memref.alloc' op allocates while the model runs}}
  %0 = memref.alloc() : memref<4xf32>
  return
}

// -----

module attributes {stepwell.library} {
  func.func private @k() attributes {stepwell.kernel = {}} {
    // expected-error@below {{'tensor.empty' op still makes a tensor}}
    %0 = tensor.empty() : tensor<4xf32>
    return
  }
}

//--- llvm.mlir
llvm.func @k() {
  llvm.return
}

// -----

llvm.func @k() {
  // expected-error@below {{'arith.constant' op was not lowered to the LLVM dialect}}
  %0 = arith.constant 0 : i32
  llvm.return
}
