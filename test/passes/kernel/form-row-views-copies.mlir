// RUN: stepwell-opt %s --split-input-file --stepwell-form-row-views | FileCheck %s

// A tensor of the caller is copied, although only the op that writes a row reads it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[COPY:.+]] = "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<9x4xf32>
// CHECK:         tensor.insert_slice %{{.+}} into %[[COPY]]
func.func @main(%x: tensor<9x4xf32>, %at: tensor<i64>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %0 = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.with_row"(%x, %0, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  return %1 : tensor<9x4xf32>
}

// -----

// So is the result of a kernel.
// CHECK-LABEL: func.func @main
// CHECK:         %[[X:.+]] = "stepwell.exp"
// CHECK:         %[[COPY:.+]] = "stepwell.slice"(%[[X]])
// CHECK:         tensor.insert_slice %{{.+}} into %[[COPY]]
func.func @main(%x: tensor<9x4xf32>, %at: tensor<i64>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<9x4xf32>) -> tensor<9x4xf32>
  %1 = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.with_row"(%0, %1, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  return %2 : tensor<9x4xf32>
}

// -----

// A row that is an argument of @main is copied.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK:           %[[COPY:.+]] = "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<4xf32>
// CHECK-NEXT:      tensor.insert_slice %[[COPY]] into %[[S]]
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %row, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// So is a row of a tensor, which no kernel computes.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK:           %[[COPY:.+]] = "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<4xf32>
// CHECK-NEXT:      tensor.insert_slice %[[COPY]] into %[[S]]
func.func @main(%x: tensor<9x4xf32>, %y: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%y, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.with_row"(%s, %0, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %1 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// So is a row that is computed before the loop.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK:           %[[COPY:.+]] = "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<4xf32>
// CHECK-NEXT:      tensor.insert_slice %[[COPY]] into %[[S]]
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %new = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<9x4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.with_row"(%s, %new, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %0 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// So is a row that is computed before its index.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK:           %[[COPY:.+]] = "stepwell.slice"(%{{.+}}) {{.*}} -> tensor<4xf32>
// CHECK-NEXT:      tensor.insert_slice %[[COPY]] into %[[S]]
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<9x4xf32>) {
    %0 = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %1 = "stepwell.with_row"(%s, %0, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %1 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// A row of the loop is computed in place if its index is known before the loop.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}})
// CHECK-NEXT:      %[[NEW:.+]] = "stepwell.exp"
// CHECK-NEXT:      tensor.insert_slice %[[NEW]] into %[[S]]
func.func @main(%x: tensor<9x4xf32>, %row: tensor<4xf32>, %at: tensor<i64>) -> tensor<9x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<9x4xf32>) {
    %0 = "stepwell.exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stepwell.with_row"(%s, %0, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
    scf.yield %1 : tensor<9x4xf32>
  }
  return %r : tensor<9x4xf32>
}

// -----

// A reshape stays if its result is read elsewhere, or if it does not only drop a leading unit dimension.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ONE:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 4>} : (tensor<1x4xf32>)
// CHECK:         %[[TWO:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 4>} : (tensor<2x2xf32>)
// CHECK:         "stepwell.slice"(%[[ONE]])
// CHECK:         "stepwell.slice"(%[[TWO]])
// CHECK:         return %{{.+}}, %{{.+}}, %[[ONE]]
func.func @main(%x: tensor<9x4xf32>, %row: tensor<1x4xf32>, %square: tensor<2x2xf32>, %at: tensor<i64>) -> (tensor<9x4xf32>, tensor<9x4xf32>, tensor<4xf32>) {
  %0 = "stepwell.exp"(%row) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 4>} : (tensor<1x4xf32>) -> tensor<4xf32>
  %2 = "stepwell.exp"(%square) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "stepwell.reshape"(%2) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %4 = "stepwell.with_row"(%x, %1, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  %5 = "stepwell.with_row"(%x, %3, %at) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
  return %4, %5, %1 : tensor<9x4xf32>, tensor<9x4xf32>, tensor<4xf32>
}
