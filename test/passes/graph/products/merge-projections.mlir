// RUN: stepwell-opt %s --split-input-file --stepwell-merge-projections --stepwell-dce | FileCheck %s

// Three products of one input become one; zeros replace a missing bias.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<1x6x8xf32>)
// CHECK:         %[[W0:.+]] = "stepwell.concat"(%{{.+}}, %{{.+}}) {axis = 1 : i64{{.*}}} : (tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK:         %[[W:.+]] = "stepwell.concat"(%[[W0]], %{{.+}}) {axis = 1 : i64{{.*}}} : (tensor<8x16xf32>, tensor<8x4xf32>)
// CHECK:         %[[P:.+]] = "stepwell.matmul"(%[[X]], %[[W]])
// CHECK-SAME:      -> tensor<1x6x20xf32>
// CHECK-DAG:     %[[Z:.+]] = "stepwell.constant"() {value = dense<0.000000e+00> : tensor<4xf32>}
// CHECK-DAG:     "stepwell.concat"(%{{.+}}, %[[Z]]) {axis = 0 : i64{{.*}}}
// CHECK:         %[[S:.+]] = "stepwell.add"(%[[P]], %{{.+}}) : (tensor<1x6x20xf32>, tensor<20xf32>)
// CHECK:         "stepwell.slice"(%[[S]]) {starts = array<i64: 0, 0, 0>
// CHECK:         "stepwell.slice"(%[[S]]) {starts = array<i64: 0, 0, 8>
// CHECK:         "stepwell.slice"(%[[S]]) {starts = array<i64: 0, 0, 16>
// CHECK-NOT:     stepwell.matmul
// CHECK:         stepwell.attention
func.func @main(%x: tensor<1x6x8xf32>) -> tensor<1x2x6x2xf32> {
  %u = "stepwell.parameter"() {name = "u", shape = array<i64: 8, 8>, dtype = f32} : () -> tensor<8x8xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 8>, dtype = f32} : () -> tensor<4x8xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 8>, dtype = f32} : () -> tensor<8xf32>
  %0 = "stepwell.matmul"(%x, %u) : (tensor<1x6x8xf32>, tensor<8x8xf32>) -> tensor<1x6x8xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<1x6x8xf32>, tensor<8xf32>) -> tensor<1x6x8xf32>
  %2 = "stepwell.reshape"(%1) {shape = array<i64: 1, 6, 2, 4>} : (tensor<1x6x8xf32>) -> tensor<1x6x2x4xf32>
  %q = "stepwell.transpose"(%2) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x2x4xf32>) -> tensor<1x2x6x4xf32>
  %3 = "stepwell.matmul"(%x, %u) : (tensor<1x6x8xf32>, tensor<8x8xf32>) -> tensor<1x6x8xf32>
  %4 = "stepwell.add"(%b, %3) : (tensor<8xf32>, tensor<1x6x8xf32>) -> tensor<1x6x8xf32>
  %5 = "stepwell.reshape"(%4) {shape = array<i64: 1, 6, 2, 4>} : (tensor<1x6x8xf32>) -> tensor<1x6x2x4xf32>
  %k = "stepwell.transpose"(%5) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x2x4xf32>) -> tensor<1x2x6x4xf32>
  %6 = "stepwell.matmul"(%x, %v) {transpose_rhs = true} : (tensor<1x6x8xf32>, tensor<4x8xf32>) -> tensor<1x6x4xf32>
  %7 = "stepwell.reshape"(%6) {shape = array<i64: 1, 6, 2, 2>} : (tensor<1x6x4xf32>) -> tensor<1x6x2x2xf32>
  %8 = "stepwell.transpose"(%7) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x2x2xf32>) -> tensor<1x2x6x2xf32>
  %9 = "stepwell.attention"(%q, %k, %8) {scale = 0.5 : f64} : (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x2xf32>) -> tensor<1x2x6x2xf32>
  return %9 : tensor<1x2x6x2xf32>
}

// -----

// A product with other readers, and one whose result is not only moved, stay separate.
// CHECK-LABEL: func.func @negative_other_readers
// CHECK-COUNT-3: stepwell.matmul
// CHECK-NOT:     stepwell.slice
func.func @negative_other_readers(%x: tensor<1x1x6x4xf32>) -> (tensor<1x1x6x4xf32>, tensor<1x1x6x4xf32>) {
  %u = "stepwell.parameter"() {name = "u", shape = array<i64: 4, 4>, dtype = f32} : () -> tensor<4x4xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 4, 4>, dtype = f32} : () -> tensor<4x4xf32>
  %q = "stepwell.matmul"(%x, %u) : (tensor<1x1x6x4xf32>, tensor<4x4xf32>) -> tensor<1x1x6x4xf32>
  %0 = "stepwell.matmul"(%x, %v) : (tensor<1x1x6x4xf32>, tensor<4x4xf32>) -> tensor<1x1x6x4xf32>
  %k = "stepwell.tanh"(%0) : (tensor<1x1x6x4xf32>) -> tensor<1x1x6x4xf32>
  %w = "stepwell.matmul"(%x, %u) : (tensor<1x1x6x4xf32>, tensor<4x4xf32>) -> tensor<1x1x6x4xf32>
  %9 = "stepwell.attention"(%q, %k, %w) {scale = 0.5 : f64} : (tensor<1x1x6x4xf32>, tensor<1x1x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<1x1x6x4xf32>
  return %9, %q : tensor<1x1x6x4xf32>, tensor<1x1x6x4xf32>
}
