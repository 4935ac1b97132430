// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s

// Branches that lead only to the end of a chain are computed with it; values with other readers are not.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
// CHECK-NOT:     call
// CHECK:       func.func private @kernel_0
// CHECK-COUNT-6: "stepwell.
// CHECK-NOT:     "stepwell.
// CHECK:       func.func private @kernel_1
// CHECK-COUNT-3: "stepwell.
func.func @main(%i: tensor<4x8xf32>, %f: tensor<4x8xf32>, %g: tensor<4x8xf32>, %o: tensor<4x8xf32>, %c: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = "stepwell.sigmoid"(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.sigmoid"(%f) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "stepwell.tanh"(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "stepwell.mul"(%1, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "stepwell.mul"(%0, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = "stepwell.add"(%3, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "stepwell.sigmoid"(%o) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "stepwell.tanh"(%5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = "stepwell.mul"(%6, %7) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5, %8 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A producer of another shape stays a separate kernel.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
func.func @main(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%y) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "stepwell.add"(%x, %0) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
