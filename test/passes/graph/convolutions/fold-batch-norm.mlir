// RUN: stepwell-opt %s --stepwell-fold-batch-norm | FileCheck %s

// CHECK-LABEL: func.func @factor_and_term
func.func @factor_and_term(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK: %[[W:.+]] = "stepwell.parameter"() {dtype = f32, name = "w"
  // CHECK: %[[C:.+]] = "stepwell.parameter"() {dtype = f32, name = "c"
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %c = "stepwell.parameter"() {name = "c", shape = array<i64: 4, 1, 1>, dtype = f32} : () -> tensor<4x1x1xf32>
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  // CHECK: %[[SCALED:.+]] = "stepwell.mul"(%[[W]], %{{.+}}) : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>)
  %1 = "stepwell.mul"(%0, %c) : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  // CHECK: %[[BIAS:.+]] = "stepwell.add"
  // CHECK: %[[RESULT:.+]] = "stepwell.conv"(%{{.+}}, %[[SCALED]], %[[BIAS]])
  // CHECK-NEXT: return %[[RESULT]]
  %2 = "stepwell.add"(%1, %c) : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  return %2 : tensor<1x4x6x6xf32>
}

// CHECK-LABEL: func.func @batch_norm_alone
func.func @batch_norm_alone(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %p = "stepwell.parameter"() {name = "p", shape = array<i64: 3>, dtype = f32} : () -> tensor<3xf32>
  // CHECK-NOT: stepwell.batch_norm
  // CHECK: %[[SCALED:.+]] = "stepwell.mul"(%{{.+}}, %{{.+}}) : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>)
  // CHECK-NEXT: "stepwell.add"(%[[SCALED]], %{{.+}}) : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>)
  %0 = "stepwell.batch_norm"(%x, %p, %p, %p, %p)
    : (tensor<1x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3>, dtype = f32} : () -> tensor<4x3xf32>
  %c = "stepwell.parameter"() {name = "c", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  // CHECK: %[[SCALED:.+]] = "stepwell.mul"(%{{.+}}, %{{.+}}) : (tensor<4x3xf32>, tensor<4x1xf32>)
  // CHECK-NEXT: "stepwell.matmul"(%{{.+}}, %[[SCALED]])
  // CHECK-NEXT: return
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1 = "stepwell.mul"(%0, %c) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @negative_factor_per_column
func.func @negative_factor_per_column(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x6x6xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3, 3, 3>, dtype = f32} : () -> tensor<4x3x3x3xf32>
  %c = "stepwell.parameter"() {name = "c", shape = array<i64: 6>, dtype = f32} : () -> tensor<6xf32>
  // CHECK: stepwell.conv
  // CHECK-NEXT: stepwell.mul
  %0 = "stepwell.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = "stepwell.mul"(%0, %c) : (tensor<1x4x6x6xf32>, tensor<6xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// Statistics that are inputs stay apart from the weights: the kernel of the convolution can apply them.
// CHECK-LABEL: func.func @statistics_are_inputs
// CHECK-SAME: (%[[X:.+]]: tensor<1x3x8x8xf32>, %[[S:.+]]: tensor<3xf32>, %[[B:.+]]: tensor<3xf32>, %[[M:.+]]: tensor<3xf32>, %[[V:.+]]: tensor<3xf32>)
func.func @statistics_are_inputs(%x: tensor<1x3x8x8xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<1x3x8x8xf32> {
  // CHECK-DAG: %[[F:.+]] = "stepwell.div"(%[[S]],
  // CHECK-DAG: %[[FC:.+]] = "stepwell.reshape"(%[[F]]) {shape = array<i64: 3, 1, 1>}
  // CHECK-DAG: %[[MC:.+]] = "stepwell.reshape"(%[[M]]) {shape = array<i64: 3, 1, 1>}
  // CHECK-DAG: %[[BC:.+]] = "stepwell.reshape"(%[[B]]) {shape = array<i64: 3, 1, 1>}
  // CHECK: %[[D:.+]] = "stepwell.sub"(%[[X]], %[[MC]])
  // CHECK: %[[P:.+]] = "stepwell.mul"(%[[D]], %[[FC]])
  // CHECK: "stepwell.add"(%[[P]], %[[BC]])
  // CHECK-NOT: stepwell.batch_norm
  %0 = "stepwell.batch_norm"(%x, %s, %b, %m, %v) {epsilon = 1.0e-05 : f64} : (tensor<1x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x8x8xf32>
  return %0 : tensor<1x3x8x8xf32>
}
