// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// Totals of adjacent columns: one vector of totals goes down the rows, in the destination itself.

// CHECK-LABEL: func.func private @columns(
// CHECK-SAME: %{{.*}}: tensor<5x64xf32>, %[[OUT:.*]]: tensor<5x64xf32>)
// CHECK: %[[PLACE:.*]] = tensor.expand_shape %[[OUT]]
// CHECK: %[[SUMS:.*]]:2 = scf.for %[[ROW:[^ ]*]] = {{.*}} iter_args(%[[TOTAL:.*]] = %{{.*}}, %[[BLOCK:.*]] = %[[PLACE]])
// CHECK:   %[[NEW:.*]] = vector.transfer_read %{{[^[]*}}[%{{.*}}, %[[ROW]], %{{.*}}]
// CHECK:   %[[AFTER:.*]] = arith.addf %[[TOTAL]], %[[NEW]] : vector<64xf32>
// CHECK:   vector.transfer_write %[[AFTER]], %[[BLOCK]][%{{.*}}, %[[ROW]], %{{.*}}]
// CHECK: %[[RESULT:.*]] = tensor.collapse_shape %[[SUMS]]#1
// CHECK-NEXT: return %[[RESULT]]
func.func private @columns(%x: tensor<5x64xf32>) -> tensor<5x64xf32> attributes {stepwell.kernel = {class = "cumulative"}} {
  %0 = "stepwell.cumulative"(%x) {axis = 0 : i64, mode = "sum", reverse = false, exclusive = false} : (tensor<5x64xf32>) -> tensor<5x64xf32>
  return %0 : tensor<5x64xf32>
}

// Totals along a row: adjacent elements, then pairs, then groups of four; here in one vector.

// CHECK-LABEL: func.func private @row(
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 4, 5, 6]
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 0, 4, 5]
// CHECK: arith.mulf
// CHECK: vector.transfer_write
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: return
func.func private @row(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "cumulative"}} {
  %0 = "stepwell.cumulative"(%x) {axis = 0 : i64, mode = "product", reverse = false, exclusive = false} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A tensor that a loop updates is copied into the destination once, before the loop.

// CHECK-LABEL: func.func private @scatter(
// CHECK: linalg.generic {{.*}} ins(%{{.*}}) outs(
// CHECK: scf.for
// CHECK:   scf.if
// CHECK: tensor.collapse_shape
// CHECK-NEXT: return
func.func private @scatter(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>) -> tensor<8x4xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.scatter"(%x, %i, %u) {axis = 0 : i64, reduction = "none"} : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// The last dimension of the copied tensor consists of single elements, so that vectors run along it.

// CHECK-LABEL: func.func private @scatter_elements(
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x800xf32>) outs(%{{.*}} : tensor<1x800xf32>)
// CHECK: scf.for
// CHECK:   tensor.insert %{{.*}} into %{{.*}} : tensor<1x800xf32>
func.func private @scatter_elements(%x: tensor<800xf32>, %i: tensor<3xi64>, %u: tensor<3xf32>) -> tensor<800xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.scatter"(%x, %i, %u) {axis = 0 : i64, reduction = "add"} : (tensor<800xf32>, tensor<3xi64>, tensor<3xf32>) -> tensor<800xf32>
  return %0 : tensor<800xf32>
}

// Without elements, there is nothing to add up.

// CHECK-LABEL: func.func private @negative_empty(
// CHECK-SAME: %{{.*}}: tensor<0x4xf32>, %[[OUT:.*]]: tensor<0x4xf32>)
// CHECK-NOT: vector.
// CHECK-NOT: arith.add
// CHECK: linalg.generic {{.*}} ins(%[[OUT]] : {{.*}} outs(%[[OUT]] :
// CHECK-NOT: vector.
// CHECK: return
func.func private @negative_empty(%x: tensor<0x4xf32>) -> tensor<0x4xf32> attributes {stepwell.kernel = {class = "cumulative"}} {
  %0 = "stepwell.cumulative"(%x) {axis = 0 : i64, mode = "sum", reverse = false, exclusive = false} : (tensor<0x4xf32>) -> tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}
