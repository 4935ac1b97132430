// RUN: stepwell-opt %s --split-input-file --stepwell-fuse-composites | FileCheck %s

// A divisor of the scores becomes the scale; the mask is additive.
// CHECK-LABEL: func.func @bert
// CHECK-SAME:    %[[Q:[^:]+]]: {{.*}}, %[[K:[^:]+]]: {{.*}}, %[[V:[^:]+]]: {{.*}}, %[[M:[^:]+]]: tensor<2x1x1x7xf32>)
// CHECK:         %[[T:.+]] = "stepwell.transpose"(%[[K]]) {permutation = array<i64: 0, 1, 3, 2>}
// CHECK:         %[[R:.+]] = "stepwell.attention"(%[[Q]], %[[T]], %[[V]], %[[M]])
// CHECK-SAME:      scale = 2.500000e-01
// CHECK:         return %[[R]]
func.func @bert(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x8x7xf32>, %v: tensor<2x4x7x8xf32>, %m: tensor<2x1x1x7xf32>)
    -> tensor<2x4x6x8xf32> {
  %four = "stepwell.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %k) : (tensor<2x4x6x8xf32>, tensor<2x4x8x7xf32>) -> tensor<2x4x6x7xf32>
  %1 = "stepwell.div"(%0, %four) : (tensor<2x4x6x7xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
  %2 = "stepwell.add"(%1, %m) : (tensor<2x4x6x7xf32>, tensor<2x1x1x7xf32>) -> tensor<2x4x6x7xf32>
  %3 = "stepwell.softmax"(%2) {axis = 3 : i64} : (tensor<2x4x6x7xf32>) -> tensor<2x4x6x7xf32>
  %4 = "stepwell.matmul"(%3, %v) : (tensor<2x4x6x7xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x6x8xf32>
  return %4 : tensor<2x4x6x8xf32>
}

// -----

// Query and key are each scaled before their transposes; a mask selects the scores or a constant.
// CHECK-LABEL: func.func @scaled_operands
// CHECK-SAME:    %[[Q:[^:]+]]: {{.*}}, %[[K:[^:]+]]: {{.*}}, %[[V:[^:]+]]: {{.*}}, %[[M:[^:]+]]: tensor<6x7xi1>)
// CHECK-DAG:     %[[QT:.+]] = "stepwell.transpose"(%[[Q]]) {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-DAG:     %[[N:.+]] = "stepwell.not"(%[[M]])
// CHECK-DAG:     %[[NR:.+]] = "stepwell.reshape"(%[[N]]) {shape = array<i64: 1, 1, 6, 7>}
// CHECK:         "stepwell.attention"(%[[QT]], %[[K]], %[[V]], %[[NR]])
// CHECK-SAME:      masked = -1.000000e+04
// CHECK-SAME:      scale = 2.500000e-01
func.func @scaled_operands(%q: tensor<1x6x4x8xf32>, %k: tensor<1x4x7x8xf32>, %v: tensor<1x4x7x8xf32>, %m: tensor<6x7xi1>)
    -> tensor<1x4x6x8xf32> {
  %half = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %least = "stepwell.constant"() {value = dense<-10000.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%q, %half) : (tensor<1x6x4x8xf32>, tensor<f32>) -> tensor<1x6x4x8xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %2 = "stepwell.mul"(%k, %half) : (tensor<1x4x7x8xf32>, tensor<f32>) -> tensor<1x4x7x8xf32>
  %3 = "stepwell.matmul"(%1, %2) {transpose_rhs = true} : (tensor<1x4x6x8xf32>, tensor<1x4x7x8xf32>) -> tensor<1x4x6x7xf32>
  %4 = "stepwell.select"(%m, %least, %3) : (tensor<6x7xi1>, tensor<f32>, tensor<1x4x6x7xf32>) -> tensor<1x4x6x7xf32>
  %5 = "stepwell.softmax"(%4) {axis = -1 : i64} : (tensor<1x4x6x7xf32>) -> tensor<1x4x6x7xf32>
  %6 = "stepwell.matmul"(%5, %v) : (tensor<1x4x6x7xf32>, tensor<1x4x7x8xf32>) -> tensor<1x4x6x8xf32>
  return %6 : tensor<1x4x6x8xf32>
}

// -----

// Batch and heads may be merged.
// CHECK-LABEL: func.func @joined_heads
// CHECK:         "stepwell.attention"({{.*}}) {{.*}} : (tensor<1x8x6x8xf32>, tensor<1x8x6x8xf32>, tensor<1x8x6x8xf32>) -> tensor<1x8x6x8xf32>
func.func @joined_heads(%q: tensor<8x6x8xf32>, %k: tensor<8x6x8xf32>, %v: tensor<8x6x8xf32>) -> tensor<8x6x8xf32> {
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<8x6x8xf32>, tensor<8x6x8xf32>) -> tensor<8x6x6xf32>
  %1 = "stepwell.softmax"(%0) {axis = 2 : i64} : (tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<8x6x6xf32>, tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  return %2 : tensor<8x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_weights_are_a_result
// CHECK-NOT:     stepwell.attention
func.func @negative_weights_are_a_result(%q: tensor<1x4x6x8xf32>, %v: tensor<1x4x6x8xf32>)
    -> (tensor<1x4x6x8xf32>, tensor<1x4x6x6xf32>) {
  %0 = "stepwell.matmul"(%q, %q) {transpose_rhs = true} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x6xf32>
  %1 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<1x4x6x6xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %2, %1 : tensor<1x4x6x8xf32>, tensor<1x4x6x6xf32>
}

// -----

// A scale after the mask would scale the mask too.
// CHECK-LABEL: func.func @negative_scale_after_mask
// CHECK-NOT:     stepwell.attention
func.func @negative_scale_after_mask(%q: tensor<1x4x6x8xf32>, %v: tensor<1x4x6x8xf32>, %m: tensor<6x6xf32>) -> tensor<1x4x6x8xf32> {
  %two = "stepwell.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %q) {transpose_rhs = true} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x6xf32>
  %1 = "stepwell.add"(%0, %m) : (tensor<1x4x6x6xf32>, tensor<6x6xf32>) -> tensor<1x4x6x6xf32>
  %2 = "stepwell.mul"(%1, %two) : (tensor<1x4x6x6xf32>, tensor<f32>) -> tensor<1x4x6x6xf32>
  %3 = "stepwell.softmax"(%2) {axis = 3 : i64} : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %4 = "stepwell.matmul"(%3, %v) : (tensor<1x4x6x6xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %4 : tensor<1x4x6x8xf32>
}

// -----

// Few queries are computed one by one.
// CHECK-LABEL: func.func @few_queries
// CHECK:         stepwell.attention
func.func @few_queries(%q: tensor<1x4x1x8xf32>, %k: tensor<1x4x6x8xf32>, %v: tensor<1x4x6x8xf32>) -> tensor<1x4x1x8xf32> {
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<1x4x1x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x1x6xf32>
  %1 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x4x1x6xf32>) -> tensor<1x4x1x6xf32>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<1x4x1x6xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x1x8xf32>
  return %2 : tensor<1x4x1x8xf32>
}

// -----

// No kernel computes attention of doubles.
// CHECK-LABEL: func.func @negative_doubles
// CHECK-NOT:     stepwell.attention
func.func @negative_doubles(%q: tensor<1x4x1x8xf64>, %k: tensor<1x4x6x8xf64>, %v: tensor<1x4x6x8xf64>) -> tensor<1x4x1x8xf64> {
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<1x4x1x8xf64>, tensor<1x4x6x8xf64>) -> tensor<1x4x1x6xf64>
  %1 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x4x1x6xf64>) -> tensor<1x4x1x6xf64>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<1x4x1x6xf64>, tensor<1x4x6x8xf64>) -> tensor<1x4x1x8xf64>
  return %2 : tensor<1x4x1x8xf64>
}

// -----

// Lengths that vary are no obstacle.
// CHECK-LABEL: func.func @varying_lengths(
// CHECK:         "stepwell.attention"
func.func @varying_lengths(%q: tensor<1x2x?x8xf32, [1, 2, "n", 8]>, %k: tensor<1x2x8x?xf32, [1, 2, 8, "n"]>, %v: tensor<1x2x?x8xf32, [1, 2, "n", 8]>) -> tensor<1x2x?x8xf32, [1, 2, "n", 8]> {
  %0 = "stepwell.matmul"(%q, %k) : (tensor<1x2x?x8xf32, [1, 2, "n", 8]>, tensor<1x2x8x?xf32, [1, 2, 8, "n"]>) -> tensor<1x2x?x?xf32, [1, 2, "n", "n"]>
  %1 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x2x?x?xf32, [1, 2, "n", "n"]>) -> tensor<1x2x?x?xf32, [1, 2, "n", "n"]>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<1x2x?x?xf32, [1, 2, "n", "n"]>, tensor<1x2x?x8xf32, [1, 2, "n", 8]>) -> tensor<1x2x?x8xf32, [1, 2, "n", 8]>
  return %2 : tensor<1x2x?x8xf32, [1, 2, "n", 8]>
}

// -----

// Negative: the depth varies, as where channels attend to channels.
// CHECK-LABEL: func.func @varying_depth(
// CHECK-NOT:     "stepwell.attention"
// CHECK:         "stepwell.softmax"
func.func @varying_depth(%q: tensor<1x2x8x?xf32, [1, 2, 8, "n"]>, %k: tensor<1x2x?x8xf32, [1, 2, "n", 8]>, %v: tensor<1x2x8x?xf32, [1, 2, 8, "n"]>) -> tensor<1x2x8x?xf32, [1, 2, 8, "n"]> {
  %0 = "stepwell.matmul"(%q, %k) : (tensor<1x2x8x?xf32, [1, 2, 8, "n"]>, tensor<1x2x?x8xf32, [1, 2, "n", 8]>) -> tensor<1x2x8x8xf32>
  %1 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %2 = "stepwell.matmul"(%1, %v) : (tensor<1x2x8x8xf32>, tensor<1x2x8x?xf32, [1, 2, 8, "n"]>) -> tensor<1x2x8x?xf32, [1, 2, 8, "n"]>
  return %2 : tensor<1x2x8x?xf32, [1, 2, 8, "n"]>
}

// -----

// A limit of the scores before the mask.
// CHECK-LABEL: func.func @limited_scores(
// CHECK:         "stepwell.attention"
// CHECK-SAME:      cap = 4.000000e+00
// CHECK-SAME:      scale = 2.500000e-01
func.func @limited_scores(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x8x7xf32>, %v: tensor<2x4x7x8xf32>, %m: tensor<2x1x1x7xf32>)
    -> tensor<2x4x6x8xf32> {
  %four = "stepwell.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %k) : (tensor<2x4x6x8xf32>, tensor<2x4x8x7xf32>) -> tensor<2x4x6x7xf32>
  %1 = "stepwell.div"(%0, %four) : (tensor<2x4x6x7xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
  %2 = "stepwell.div"(%1, %four) : (tensor<2x4x6x7xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
  %3 = "stepwell.tanh"(%2) : (tensor<2x4x6x7xf32>) -> tensor<2x4x6x7xf32>
  %4 = "stepwell.mul"(%3, %four) : (tensor<2x4x6x7xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
  %5 = "stepwell.add"(%4, %m) : (tensor<2x4x6x7xf32>, tensor<2x1x1x7xf32>) -> tensor<2x4x6x7xf32>
  %6 = "stepwell.softmax"(%5) {axis = 3 : i64} : (tensor<2x4x6x7xf32>) -> tensor<2x4x6x7xf32>
  %7 = "stepwell.matmul"(%6, %v) : (tensor<2x4x6x7xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x6x8xf32>
  return %7 : tensor<2x4x6x8xf32>
}

// -----

// Negative: a negative number is no limit.
// CHECK-LABEL: func.func @scaled_limit(
// CHECK-NOT:     "stepwell.attention"
func.func @scaled_limit(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x8x7xf32>, %v: tensor<2x4x7x8xf32>) -> tensor<2x4x6x8xf32> {
  %four = "stepwell.constant"() {value = dense<-4.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %k) : (tensor<2x4x6x8xf32>, tensor<2x4x8x7xf32>) -> tensor<2x4x6x7xf32>
  %1 = "stepwell.tanh"(%0) : (tensor<2x4x6x7xf32>) -> tensor<2x4x6x7xf32>
  %2 = "stepwell.mul"(%1, %four) : (tensor<2x4x6x7xf32>, tensor<f32>) -> tensor<2x4x6x7xf32>
  %3 = "stepwell.softmax"(%2) {axis = 3 : i64} : (tensor<2x4x6x7xf32>) -> tensor<2x4x6x7xf32>
  %4 = "stepwell.matmul"(%3, %v) : (tensor<2x4x6x7xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x6x8xf32>
  return %4 : tensor<2x4x6x8xf32>
}
