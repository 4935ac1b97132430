// RUN: stepwell-opt %s --split-input-file --stepwell-divide-loops | FileCheck %s

// Fewer than 16 iterations save little memory.
// CHECK-LABEL: func.func @main(%{{.+}}: tensor<15x4xf32>
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         return
func.func @main(%x: tensor<15x4xf32>, %h0: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c15 = arith.constant 15 : index
  %r = scf.for %i = %c0 to %c15 step %c1 iter_args(%h = %h0) -> (tensor<4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%x, %t) : (tensor<15x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.mul"(%h, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// The number of iterations is not known.
// CHECK-LABEL: func.func @main(%{{.+}}: index
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         return
func.func @main(%count: index, %h0: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%h = %h0) -> (tensor<4xf32>) {
    %0 = "stepwell.sin"(%h) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// Every iteration writes the same row, which is not in the order of the iterations.
// CHECK-LABEL: func.func @main(%{{.+}}: tensor<24x4xf32>
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         return
func.func @main(%y0: tensor<24x4xf32>, %h0: tensor<4xf32>) -> (tensor<24x4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c24 = arith.constant 24 : index
  %seven = "stepwell.constant"() {value = dense<7> : tensor<i64>} : () -> tensor<i64>
  %r:2 = scf.for %i = %c0 to %c24 step %c1 iter_args(%y = %y0, %h = %h0) -> (tensor<24x4xf32>, tensor<4xf32>) {
    %0 = "stepwell.sin"(%h) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stepwell.with_row"(%y, %0, %seven) : (tensor<24x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<24x4xf32>
    scf.yield %1, %0 : tensor<24x4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<24x4xf32>, tensor<4xf32>
}
