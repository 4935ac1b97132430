// RUN: stepwell-opt %s --stepwell-propagate-transposes | FileCheck %s

// Two functions of one transposed tensor: sinking alone would make two transposes of one.
// CHECK-LABEL: func.func @two_functions
// CHECK:         %[[Y:.+]] = "stepwell.transpose"(%arg0)
// CHECK:         %[[A:.+]] = "stepwell.mul"(%[[Y]], %arg1)
// CHECK:         %[[B:.+]] = "stepwell.mul"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<6x4xf32>
// CHECK:         %[[C:.+]] = "stepwell.sqrt"(%[[B]])
// CHECK:         return %[[A]], %[[C]]
func.func @two_functions(%x: tensor<4x6xf32>, %c: tensor<f32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "stepwell.mul"(%0, %c) : (tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  %2 = "stepwell.mul"(%0, %0) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = "stepwell.sqrt"(%2) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %1, %3 : tensor<6x4xf32>, tensor<6x4xf32>
}

// -----

// The other function is not transposed, or in another order.
// CHECK-LABEL: func.func @negative_one_function_transposed
// CHECK:         %[[A:.+]] = "stepwell.relu"(%arg0)
// CHECK:         %[[T:.+]] = "stepwell.transpose"(%[[A]])
// CHECK:         %[[B:.+]] = "stepwell.neg"(%arg0)
// CHECK:         %[[U:.+]] = "stepwell.transpose"(%[[B]]) {permutation = array<i64: 2, 0, 1>}
// CHECK:         return %[[T]], %[[B]], %[[U]]
func.func @negative_one_function_transposed(%x: tensor<4x6x2xf32>) -> (tensor<6x4x2xf32>, tensor<4x6x2xf32>, tensor<2x4x6xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<4x6x2xf32>) -> tensor<6x4x2xf32>
  %1 = "stepwell.relu"(%0) : (tensor<6x4x2xf32>) -> tensor<6x4x2xf32>
  %2 = "stepwell.neg"(%x) : (tensor<4x6x2xf32>) -> tensor<4x6x2xf32>
  %3 = "stepwell.transpose"(%2) {permutation = array<i64: 2, 0, 1>} : (tensor<4x6x2xf32>) -> tensor<2x4x6xf32>
  return %1, %2, %3 : tensor<6x4x2xf32>, tensor<4x6x2xf32>, tensor<2x4x6xf32>
}
