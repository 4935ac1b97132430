// RUN: stepwell-opt %s --split-input-file --stepwell-form-row-views | FileCheck %s

// A view is copied before its rows are read.
// CHECK-LABEL: func.func @main
// CHECK:         %[[PART:.+]] = tensor.extract_slice
// CHECK:         %[[COPY:.+]] = "stepwell.slice"(%[[PART]])
// CHECK:         tensor.extract_slice %[[COPY]][%{{.+}}, 0] [1, 2]
func.func @main(%x: tensor<9x4xf32>, %at: tensor<i64>) -> tensor<2xf32> {
  %0 = tensor.extract_slice %x[0, 2] [9, 2] [1, 1] : tensor<9x4xf32> to tensor<9x2xf32>
  %1 = "stepwell.row"(%0, %at) : (tensor<9x2xf32>, tensor<i64>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A scalar tensor that an op reads stays; a constant index is a scalar, so nothing reads its tensor.
// CHECK-LABEL: func.func @main
// CHECK:         %[[T:.+]] = tensor.from_elements
// CHECK-NOT:     tensor.extract %
// CHECK-NOT:     stepwell.constant
// CHECK:         return %{{.+}}, %{{.+}}, %[[T]]
func.func @main(%x: tensor<9x4xf32>, %n: i64) -> (tensor<4xf32>, tensor<4xf32>, tensor<i64>) {
  %t = tensor.from_elements %n : tensor<i64>
  %two = "stepwell.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %0 = "stepwell.row"(%x, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
  %1 = "stepwell.row"(%x, %two) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
  return %0, %1, %t : tensor<4xf32>, tensor<4xf32>, tensor<i64>
}

// -----

// Indices of 32 bits are extended.
// CHECK-LABEL: func.func @main
// CHECK:         tensor.extract %{{.+}}[] : tensor<i32>
// CHECK:         %[[SUM:.+]] = "stepwell.add"
// CHECK:         tensor.extract %[[SUM]][] : tensor<i32>
func.func @main(%x: tensor<9x4xf32>, %n: i32, %m: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %t = tensor.from_elements %n : tensor<i32>
  %sum = "stepwell.add"(%m, %m) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %0 = "stepwell.row"(%x, %t) : (tensor<9x4xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = "stepwell.row"(%x, %sum) : (tensor<9x4xf32>, tensor<i32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
