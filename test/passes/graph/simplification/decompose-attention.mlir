// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s

// No kernel computes doubles. Query heads that share a key head become rows of one matrix; the bool mask becomes a select.
// CHECK-LABEL: func.func @main
// CHECK:         %[[S:.+]] = "stepwell.mul"(%{{.+}}, %{{.+}}) : (tensor<1x4x3x8xf64>
// CHECK:         %[[Q:.+]] = "stepwell.reshape"(%[[S]]) {shape = array<i64: 1, 2, 6, 8>}
// CHECK:         "stepwell.matmul"(%[[Q]], %{{.+}}) {transpose_rhs = true}
// CHECK:         "stepwell.select"
// CHECK:         "stepwell.softmax"
// CHECK:         "stepwell.matmul"
// CHECK-NOT:     stepwell.attention
func.func @main(%q: tensor<1x4x3x8xf64>, %k: tensor<1x2x5x8xf64>, %v: tensor<1x2x5x8xf64>, %m: tensor<3x5xi1>)
    -> tensor<1x4x3x8xf64> {
  %0 = "stepwell.attention"(%q, %k, %v, %m) {scale = 0.5 : f64}
      : (tensor<1x4x3x8xf64>, tensor<1x2x5x8xf64>, tensor<1x2x5x8xf64>, tensor<3x5xi1>) -> tensor<1x4x3x8xf64>
  return %0 : tensor<1x4x3x8xf64>
}

// -----

// With dynamic shapes, it stays.
// CHECK-LABEL: func.func @main
// CHECK:         stepwell.attention
func.func @main(%q: tensor<1x4x?x8xf32>, %k: tensor<1x4x?x8xf32>, %v: tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64}
      : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}
