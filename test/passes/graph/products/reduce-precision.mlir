// RUN: stepwell-opt %s --stepwell-reduce-precision=precision=bf16 | FileCheck %s
// RUN: stepwell-opt %s --stepwell-reduce-precision=precision=f16 | FileCheck %s --check-prefix=HALF
// RUN: stepwell-opt %s --stepwell-reduce-precision=precision=tf32 | FileCheck %s --check-prefix=ROUND
// RUN: stepwell-opt %s --stepwell-reduce-precision | FileCheck %s --check-prefix=SAME

// SAME-NOT: stepwell.cast

// The cast comes before ops that only move the operand.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.+]]: tensor<8x4xf32>, %[[Y:.+]]: tensor<8x2xf32>)
// CHECK: %[[LHS:.+]] = "stepwell.cast"(%[[X]]) {dtype = bf16}
// CHECK: %[[MOVED:.+]] = "stepwell.transpose"(%[[LHS]]) {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[RHS:.+]] = "stepwell.cast"(%[[Y]]) {dtype = bf16}
// CHECK: %[[SHORT:.+]] = "stepwell.matmul"(%[[MOVED]], %[[RHS]]) {{.*}} -> tensor<4x2xbf16>
// CHECK: %[[WIDE:.+]] = "stepwell.cast"(%[[SHORT]]) {dtype = f32}
// CHECK: return %[[WIDE]]
// ROUND-LABEL: func.func @product
// ROUND: %[[SPLITTER:.+]] = "stepwell.constant"() {value = dense<8.193000e+03> : tensor<4x8xf32>}
// ROUND: %[[LARGE:.+]] = "stepwell.mul"(%[[T:.+]], %[[SPLITTER]])
// ROUND: %[[LOW:.+]] = "stepwell.sub"(%[[LARGE]], %[[T]])
// ROUND: %[[LHS:.+]] = "stepwell.sub"(%[[LARGE]], %[[LOW]])
// ROUND: "stepwell.matmul"(%[[LHS]], %{{.+}}) {{.*}} -> tensor<4x2xf32>
func.func @product(%x: tensor<8x4xf32>, %y: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.matmul"(%0, %y) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// The bias is added in float32.
// CHECK-LABEL: func.func @convolution
// CHECK-SAME: (%{{.+}}: tensor<1x8x8x4xf32>, %[[B:.+]]: tensor<16xf32>)
// CHECK: %[[CONV:.+]] = "stepwell.conv"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<1x8x8x16xbf16>
// CHECK: %[[WIDE:.+]] = "stepwell.cast"(%[[CONV]]) {dtype = f32}
// CHECK: "stepwell.add"(%[[WIDE]], %[[B]])
func.func @convolution(%x: tensor<1x8x8x4xf32>, %b: tensor<16xf32>) -> tensor<1x8x8x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 16, 4, 1, 1>, dtype = f32} : () -> tensor<16x4x1x1xf32>
  %0 = "stepwell.conv"(%x, %w, %b) {layout = "channels_last", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x8x8x4xf32>, tensor<16x4x1x1xf32>, tensor<16xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// Masked scores stay finite: a softmax of nothing but -inf would be NaN.
// CHECK-LABEL: func.func @attention
// CHECK: stepwell.attention{{.*}} -> tensor<1x2x4x8xbf16>
// HALF-LABEL: func.func @attention
// HALF-SAME: %[[MASK:[^:]+]]: tensor<1x1x4x4xf32>)
// HALF: %[[CLIP:.+]] = "stepwell.clip"(%[[MASK]]) {maximum = 6.550400e+04 : f64, minimum = -6.550400e+04 : f64}
// HALF: %[[SHORT:.+]] = "stepwell.cast"(%[[CLIP]]) {dtype = f16}
// HALF: "stepwell.attention"(%{{.+}}, %{{.+}}, %{{.+}}, %[[SHORT]])
func.func @attention(%x: tensor<1x2x4x8xf32>, %m: tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32> {
  %0 = "stepwell.attention"(%x, %x, %x, %m) {scale = 0.5 : f64}
    : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}

// CHECK-LABEL: func.func @negative_double
// CHECK-NOT: stepwell.cast
func.func @negative_double(%x: tensor<4x8xf64>, %y: tensor<8x2xf64>) -> tensor<4x2xf64> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xf64>, tensor<8x2xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}

// CHECK-LABEL: func.func @negative_parameters_alone
// CHECK-NOT: stepwell.cast
func.func @negative_parameters_alone() -> tensor<4x4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 4>, dtype = f32} : () -> tensor<4x4xf32>
  %0 = "stepwell.matmul"(%w, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -inf in the mask means that a query attends to nothing.
// CHECK-LABEL: func.func @negative_empty_rows
// CHECK-NOT: stepwell.cast
func.func @negative_empty_rows(%x: tensor<1x2x4x8xf32>, %m: tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32> {
  %0 = "stepwell.attention"(%x, %x, %x, %m) {scale = 0.5 : f64, zero_empty = true}
    : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}
