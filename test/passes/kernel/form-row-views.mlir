// RUN: stepwell-opt %s --split-input-file --stepwell-form-row-views | FileCheck %s

// A row is read and written in place; if a loop writes all rows, the previous contents are not needed.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<9x4xf32>
// CHECK:         %[[NONE:.+]] = tensor.empty() : tensor<9x4xf32>
// CHECK:         scf.for %[[I:.+]] = %{{.+}} iter_args(%[[S:.+]] = %[[NONE]])
// CHECK:           %[[AT:.+]] = arith.index_cast %{{.+}} : i64 to index
// CHECK:           %[[ROW:.+]] = tensor.extract_slice %[[X]][%[[AT]], 0] [1, 4] [1, 1] : tensor<9x4xf32> to tensor<4xf32>
// CHECK:           %[[NEW:.+]] = "stepwell.exp"(%[[ROW]])
// CHECK-NEXT:      %[[WITH:.+]] = tensor.insert_slice %[[NEW]] into %[[S]][%[[AT]], 0] [1, 4] [1, 1]
// CHECK:           scf.yield %[[WITH]]
func.func @main(%x: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<9x4xf32>} : () -> tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%x, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.with_row"(%s, %1, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %2 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// Rows counted from both ends are all rows. A value with other uses than its row is copied there.
// CHECK-LABEL: func.func @main
// CHECK:         tensor.empty() : tensor<8x4xf32>
// CHECK:         scf.for
// CHECK:           arith.subi
// CHECK:           arith.muli
// CHECK:           arith.addi
// CHECK:           %[[A:.+]] = "stepwell.slice"
// CHECK-NEXT:      %[[ONE:.+]] = tensor.insert_slice %[[A]] into %{{.+}}[%{{.+}}, 0]
// CHECK:           %[[B:.+]] = "stepwell.slice"
// CHECK-NEXT:      %[[TWO:.+]] = tensor.insert_slice %[[B]] into %[[ONE]][%{{.+}}, 0]
// CHECK:           scf.yield %[[TWO]], %{{.+}}
func.func @main(%x: tensor<4xf32>) -> tensor<8x4xf32> {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<8x4xf32>} : () -> tensor<8x4xf32>
  %one = "stepwell.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %two = "stepwell.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %three = "stepwell.constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %zeros, %h = %x) -> (tensor<8x4xf32>, tensor<4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %first = "stepwell.mul"(%t, %two) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %left = "stepwell.sub"(%three, %t) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %double = "stepwell.mul"(%left, %two) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %last = "stepwell.add"(%double, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %1 = "stepwell.exp"(%h) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.with_row"(%s, %1, %first) : (tensor<8x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<8x4xf32>
    %3 = "stepwell.with_row"(%2, %1, %last) : (tensor<8x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<8x4xf32>
    scf.yield %3, %1 : tensor<8x4xf32>, tensor<4xf32>
  }
  return %r#0 : tensor<8x4xf32>
}

// -----

// A kernel may compute an index. A tensor that does not belong to the loop is copied; its previous contents are kept if
// not every row is written.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<9x4xf32>
// CHECK:         %[[ITEM:.+]] = tensor.extract %{{.+}}[] : tensor<i64>
// CHECK:         %[[LOW:.+]] = arith.maxsi %[[ITEM]]
// CHECK:         arith.minsi %[[LOW]]
// CHECK:         %[[COPY:.+]] = "stepwell.slice"(%[[X]])
// CHECK:         %[[WITH:.+]] = tensor.insert_slice %{{.+}} into %[[COPY]][%{{.+}}, 0]
// CHECK:         scf.for %{{.+}} iter_args(%{{.+}} = %[[WITH]])
func.func @main(%x: tensor<9x4xf32>, %i: tensor<i64>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %at = "stepwell.abs"(%i) : (tensor<i64>) -> tensor<i64>
  %row = "stepwell.row"(%x, %at) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
  %1 = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.with_row"(%x, %1, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  %r = scf.for %k = %c0 to %c8 step %c1 iter_args(%s = %2) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %k : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %3 = "stepwell.with_row"(%s, %1, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %3 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// A row that a kernel makes with a leading dimension of 1 is made in place, without a copy.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for %{{.+}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK:           %[[ROW:.+]] = tensor.extract_slice
// CHECK:           %[[IMAGE:.+]] = "stepwell.reshape"(%[[ROW]])
// CHECK:           %[[NEW:.+]] = "stepwell.exp"(%[[IMAGE]]) : (tensor<1x4xf32>)
// CHECK-NEXT:      %[[WITH:.+]] = tensor.insert_slice %[[NEW]] into %[[S]][%{{.+}}, 0] [1, 4] [1, 1] : tensor<1x4xf32>
// CHECK-NOT:       stepwell.reshape
// CHECK-NOT:       stepwell.slice
// CHECK:           scf.yield %[[WITH]]
func.func @main(%x: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %none = tensor.empty() : tensor<9x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %none) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%x, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.reshape"(%0) {shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
    %2 = "stepwell.exp"(%1) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %3 = "stepwell.reshape"(%2) {shape = array<i64: 4>} : (tensor<1x4xf32>) -> tensor<4xf32>
    %4 = "stepwell.with_row"(%s, %3, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %4 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}
