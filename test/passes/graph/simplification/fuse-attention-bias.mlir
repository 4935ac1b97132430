// RUN: stepwell-opt %s --split-input-file --stepwell-fuse-composites | FileCheck %s

// A bias is added before the mask; its batch and heads may be one dimension. Together they are one mask of floats.
// CHECK-LABEL: func.func @biased(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x4x5x16xf32>, %[[K:[a-z0-9]+]]: tensor<2x4x7x16xf32>, %[[V:[a-z0-9]+]]: tensor<2x4x7x16xf32>, %[[BIAS:[a-z0-9]+]]: tensor<8x1x7xf32>, %[[MASK:[a-z0-9]+]]: tensor<2x1x5x7xf32>
// CHECK:         %[[HEADS:.+]] = "stepwell.reshape"(%[[BIAS]]) {shape = array<i64: 2, 4, 1, 7>}
// CHECK:         %[[BOTH:.+]] = "stepwell.add"(%[[MASK]], %[[HEADS]]) : (tensor<2x1x5x7xf32>, tensor<2x4x1x7xf32>) -> tensor<2x4x5x7xf32>
// CHECK:         "stepwell.attention"(%[[Q]], %[[K]], %[[V]], %[[BOTH]]) {{{.*}}scale = 2.500000e-01 : f64
func.func @biased(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %bias: tensor<8x1x7xf32>, %mask: tensor<2x1x5x7xf32>) -> tensor<2x4x5x16xf32> {
  %scale = "stepwell.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x7xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 8, 5, 7>} : (tensor<2x4x5x7xf32>) -> tensor<8x5x7xf32>
  %2 = "stepwell.mul"(%1, %scale) : (tensor<8x5x7xf32>, tensor<f32>) -> tensor<8x5x7xf32>
  %3 = "stepwell.add"(%2, %bias) : (tensor<8x5x7xf32>, tensor<8x1x7xf32>) -> tensor<8x5x7xf32>
  %4 = "stepwell.reshape"(%3) {shape = array<i64: 2, 4, 5, 7>} : (tensor<8x5x7xf32>) -> tensor<2x4x5x7xf32>
  %5 = "stepwell.add"(%4, %mask) : (tensor<2x4x5x7xf32>, tensor<2x1x5x7xf32>) -> tensor<2x4x5x7xf32>
  %6 = "stepwell.softmax"(%5) {axis = -1 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %7 = "stepwell.matmul"(%6, %v) : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %7 : tensor<2x4x5x16xf32>
}

// A bias before a condition is what the condition selects.
// CHECK-LABEL: func.func @biased_choice(
// CHECK-SAME:    %[[MASK:[a-z0-9]+]]: tensor<5x7xi1>
// CHECK:         %[[BOTH:.+]] = "stepwell.select"(%{{.+}}, %{{.+}}, %{{.+}}) : (tensor<1x1x5x7xi1>, tensor<1x4x1x7xf32>, tensor<f32>) -> tensor<1x4x5x7xf32>
// CHECK:         "stepwell.attention"(%{{.+}}, %{{.+}}, %{{.+}}, %[[BOTH]])
func.func @biased_choice(%mask: tensor<5x7xi1>, %q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %bias: tensor<4x1x7xf32>) -> tensor<2x4x5x16xf32> {
  %least = "stepwell.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x7xf32>
  %1 = "stepwell.add"(%0, %bias) : (tensor<2x4x5x7xf32>, tensor<4x1x7xf32>) -> tensor<2x4x5x7xf32>
  %2 = "stepwell.select"(%mask, %1, %least) : (tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>) -> tensor<2x4x5x7xf32>
  %3 = "stepwell.softmax"(%2) {axis = -1 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %4 = "stepwell.matmul"(%3, %v) : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %4 : tensor<2x4x5x16xf32>
}

// A third term is not part of the mask.
// CHECK-LABEL: func.func @negative_two_biases(
// CHECK-NOT:     "stepwell.attention"
// CHECK:         return
func.func @negative_two_biases(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %bias: tensor<4x1x7xf32>) -> tensor<2x4x5x16xf32> {
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x7xf32>
  %1 = "stepwell.add"(%0, %bias) : (tensor<2x4x5x7xf32>, tensor<4x1x7xf32>) -> tensor<2x4x5x7xf32>
  %2 = "stepwell.add"(%1, %bias) : (tensor<2x4x5x7xf32>, tensor<4x1x7xf32>) -> tensor<2x4x5x7xf32>
  %3 = "stepwell.add"(%2, %bias) : (tensor<2x4x5x7xf32>, tensor<4x1x7xf32>) -> tensor<2x4x5x7xf32>
  %4 = "stepwell.softmax"(%3) {axis = -1 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %5 = "stepwell.matmul"(%4, %v) : (tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32>
  return %5 : tensor<2x4x5x16xf32>
}
