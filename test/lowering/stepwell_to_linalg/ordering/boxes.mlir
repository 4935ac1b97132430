// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// Classes are independent. A bucket of scores is sorted when it is reached, and 16 remaining boxes are compared at once.

// CHECK-LABEL: func.func private @suppress(
// CHECK: scf.forall
// CHECK: scf.while
// CHECK: scf.while
// CHECK: scf.while
// CHECK: arith.divf {{.*}} : vector<16xf32>
// CHECK: vector.bitcast {{.*}} : vector<16xi1> to vector<1xi16>
func.func private @suppress(%b: tensor<1x50x4xf32>, %s: tensor<1x3x50xf32>) -> tensor<1x3x11xi64> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.suppress"(%b, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, most = 10 : i64} : (tensor<1x50x4xf32>, tensor<1x3x50xf32>) -> tensor<1x3x11xi64>
  return %0 : tensor<1x3x11xi64>
}

// CHECK-LABEL: func.func private @negative_none(
// CHECK-NOT: scf.while
// CHECK: return
func.func private @negative_none(%b: tensor<1x50x4xf32>, %s: tensor<1x3x50xf32>) -> tensor<1x3x1xi64> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.suppress"(%b, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, most = 0 : i64} : (tensor<1x50x4xf32>, tensor<1x3x50xf32>) -> tensor<1x3x1xi64>
  return %0 : tensor<1x3x1xi64>
}

// CHECK-LABEL: func.func private @join(
// CHECK-COUNT-2: scf.for
func.func private @join(%x: tensor<1x3x11xi64>) -> tensor<30x3xi64> attributes {stepwell.kernel = {class = "selection"}} {
  %0 = "stepwell.join_rows"(%x) : (tensor<1x3x11xi64>) -> tensor<30x3xi64>
  return %0 : tensor<30x3xi64>
}
