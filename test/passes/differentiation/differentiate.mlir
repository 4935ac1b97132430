// RUN: stepwell-opt %s --split-input-file --stepwell-differentiate | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-differentiate="seeded" | FileCheck %s --check-prefix=SEEDED
// RUN: stepwell-opt %s --split-input-file --stepwell-differentiate="wrt=w" | FileCheck %s --check-prefix=ONLY

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: tensor<2x4xf32> {stepwell.name = "x"}, %[[W:.+]]: tensor<4x3xf32> {stepwell.name = "w"})
// CHECK-SAME: -> (tensor<f32>, tensor<2x4xf32> {stepwell.dims = [2, 4], stepwell.name = "x.gradient"},
// CHECK-SAME: tensor<4x3xf32> {stepwell.dims = [4, 3], stepwell.name = "w.gradient"})
// CHECK: %[[LOSS:.+]] = "stepwell.reduce_sum"
// CHECK: %[[G:.+]] = "stepwell.broadcast_to"
// CHECK-DAG: %[[GX:.+]] = "stepwell.matmul"(%[[G]], %[[W]]) {transpose_lhs = false, transpose_rhs = true}
// CHECK-DAG: %[[GW:.+]] = "stepwell.matmul"(%[[X]], %[[G]]) {transpose_lhs = true, transpose_rhs = false}
// CHECK: return %[[LOSS]], %[[GX]], %[[GW]]

// SEEDED-LABEL: func.func @main
// SEEDED-SAME: %[[SEED:[^:]+]]: tensor<f32> {stepwell.dims = [], stepwell.name = "output0.gradient"}
// SEEDED: "stepwell.reshape"(%[[SEED]])

// ONLY-LABEL: func.func @main
// ONLY: "stepwell.matmul"
// ONLY: "stepwell.matmul"
// ONLY-NOT: "stepwell.matmul"
// ONLY: return
func.func @main(%x: tensor<2x4xf32> {stepwell.name = "x"}, %w: tensor<4x3xf32> {stepwell.name = "w"}) -> tensor<f32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// What was broadcast is summed up; two paths are added.
// CHECK-LABEL: func.func @main
// CHECK: %[[G:.+]] = "stepwell.broadcast_to"
// CHECK: %[[SUM:.+]] = "stepwell.reduce_sum"(%{{.+}}) {axes = array<i64: 0>, keepdims = true}
// CHECK: "stepwell.reshape"(%[[SUM]])
// CHECK: %[[BOTH:.+]] = "stepwell.add"
// CHECK: return %{{.+}}, %[[BOTH]]
func.func @main(%w: tensor<3xf32> {stepwell.name = "w"}) -> tensor<f32> {
  %c = "stepwell.constant"() {value = dense<2.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %0 = "stepwell.add"(%c, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "stepwell.mul"(%0, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// An input that the output does not depend on has a gradient of 0.
// CHECK-LABEL: func.func @main
// CHECK: %[[ZERO:.+]] = "stepwell.constant"() {value = dense<0.000000e+00> : tensor<3xf32>}
// CHECK: return %{{.+}}, %[[ZERO]]
func.func @main(%w: tensor<3xf32> {stepwell.name = "w"}) -> tensor<f32> {
  %0 = "stepwell.floor"(%w) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
