// RUN: stepwell-opt %s --stepwell-fold-constants | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline="builtin.module(stepwell-fold-constants{max-elements=2})" | FileCheck %s --check-prefix=SMALL

// CHECK-LABEL: func.func @add
// SMALL-LABEL: func.func @add
func.func @add() -> tensor<3xi64> {
  %a = "stepwell.constant"() {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  %b = "stepwell.constant"() {value = dense<[4, 5, 6]> : tensor<3xi64>} : () -> tensor<3xi64>
  // CHECK: %[[SUM:.+]] = "stepwell.constant"() {value = dense<[5, 7, 9]> : tensor<3xi64>}
  // CHECK-NEXT: return %[[SUM]]
  %0 = "stepwell.add"(%a, %b) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
}

// CHECK-LABEL: func.func @splats
func.func @splats() -> tensor<1000x1000xf32> {
  %shape = "stepwell.constant"() {value = dense<1000> : tensor<2xi64>} : () -> tensor<2xi64>
  %0 = "stepwell.fill"(%shape) {value = dense<4.0> : tensor<1xf32>} : (tensor<2xi64>) -> tensor<1000x1000xf32>
  // CHECK: %[[ROOT:.+]] = "stepwell.constant"() {value = dense<2.000000e+00> : tensor<1000x1000xf32>}
  // CHECK-NEXT: return %[[ROOT]]
  %1 = "stepwell.sqrt"(%0) : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %1 : tensor<1000x1000xf32>
}

// CHECK-LABEL: func.func @shape_of
func.func @shape_of(%x: tensor<2x5xf32>) -> tensor<i64> {
  %shape = "stepwell.shape_of"(%x) : (tensor<2x5xf32>) -> tensor<2xi64>
  // CHECK: "stepwell.constant"() {value = dense<10> : tensor<i64>}
  %0 = "stepwell.reduce_prod"(%shape) {axes = array<i64: 0>, keepdims = false} : (tensor<2xi64>) -> tensor<i64>
  return %0 : tensor<i64>
}

// CHECK-LABEL: func.func @known_branch
func.func @known_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = "stepwell.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %c = tensor.extract %true[] : tensor<i1>
  // CHECK-NOT: scf.if
  // CHECK: stepwell.relu
  // CHECK-NOT: stepwell.abs
  %0 = scf.if %c -> (tensor<4xf32>) {
    %1 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    %1 = "stepwell.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_parameter
func.func @negative_parameter() -> tensor<4xf32> {
  // CHECK: stepwell.parameter
  // CHECK: stepwell.exp
  %0 = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_work
// SMALL-LABEL: func.func @negative_work
func.func @negative_work(%i: tensor<2xi64>) -> tensor<3xf32> {
  %a = "stepwell.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  // SMALL: stepwell.constant
  // SMALL-NEXT: stepwell.pad
  %0 = "stepwell.pad"(%a) {low = array<i64: 4094>, high = array<i64: 1>} : (tensor<3xf32>) -> tensor<4098xf32>
  // CHECK: stepwell.slice
  %1 = "stepwell.slice"(%0) {starts = array<i64: 4090>, stops = array<i64: 4096>, steps = array<i64: 2>} : (tensor<4098xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// Running totals and kept slices of a constant are not the constant.
// CHECK-LABEL: func.func @others
func.func @others() -> (tensor<3xf32>, tensor<3xf32>) {
  %a = "stepwell.constant"() {value = dense<[1.0, 1.0, 2.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %kept = "stepwell.constant"() {value = dense<[false, true, true]> : tensor<3xi1>} : () -> tensor<3xi1>
  // CHECK-DAG: %[[TOTALS:.+]] = "stepwell.constant"() {value = dense<[1.000000e+00, 2.000000e+00, 4.000000e+00]> : tensor<3xf32>}
  // CHECK-DAG: %[[KEPT:.+]] = "stepwell.constant"() {value = dense<[1.000000e+00, 2.000000e+00, {{.+}}]> : tensor<3xf32>}
  // CHECK: return %[[TOTALS]], %[[KEPT]]
  %0 = "stepwell.cumulative"(%a) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "stepwell.compress"(%a, %kept) {axis = 0 : i64} : (tensor<3xf32>, tensor<3xi1>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
