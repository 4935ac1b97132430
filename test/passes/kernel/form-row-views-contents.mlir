// RUN: stepwell-opt %s --split-input-file --stepwell-form-row-views | FileCheck %s --implicit-check-not=tensor.empty

// The previous contents are needed if the number of iterations is unknown, or larger than the number of rows.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         scf.for
func.func @main(%row: tensor<4xf32>, %some: index) -> (tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>) {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c18 = arith.constant 18 : index
  %a = scf.for %i = %some to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  %b = scf.for %i = %c0 to %some step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  %c = scf.for %i = %c0 to %c9 step %some iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  %d = scf.for %i = %c0 to %c18 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  return %a, %b, %c, %d : tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>
}

// -----

// An index that does not depend on the iteration alone may leave rows out.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
func.func @main(%row: tensor<4xf32>, %at: tensor<i64>) -> tensor<9x4xf32> {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %0 = "stepwell.with_row"(%s, %row, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// An op of the loop reads all rows, or one of them, after only some were written.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:           "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<9x4xf32>
func.func @main(%row: tensor<4xf32>) -> (tensor<9x4xf32>, tensor<1x4xf32>, tensor<9x4xf32>) {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %sums = "stepwell.constant"() {value = dense<0.0> : tensor<1x4xf32>} : () -> tensor<1x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %a:2 = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros, %m = %sums) -> (tensor<9x4xf32>, tensor<1x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>, keepdims = true} : (tensor<9x4xf32>) -> tensor<1x4xf32>
    scf.yield %0, %1 : tensor<9x4xf32>, tensor<1x4xf32>
  }
  %b = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    %1 = "stepwell.exp"(%0) : (tensor<9x4xf32>) -> tensor<9x4xf32>
    scf.yield %1 : tensor<9x4xf32>
  }
  %c = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%s, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.with_row"(%s, %1, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %2 : tensor<9x4xf32>
  }
  return %a#0, %a#1, %c : tensor<9x4xf32>, tensor<1x4xf32>, tensor<9x4xf32>
}

// -----

// The next iteration gets the rows in the place of another tensor, so it writes its row into that one.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r:2 = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros, %u = %x) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %u, %0 : tensor<9x4xf32>, tensor<9x4xf32>
  }
  return %r#0, %r#1 : tensor<9x4xf32>, tensor<9x4xf32>
}

// -----

// Nothing reads the written rows.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %x : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}
