// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @regions
func.func @regions(%x: tensor<2x8x20x20xf32>, %b: tensor<5x4xf32>, %i: tensor<5xi64>, %c: tensor<5x5xf32>) {
  // CHECK: "stepwell.roi_align"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}})
  // CHECK-SAME: {samples = 2 : i64, scale = 2.500000e-01 : f64, sizes = array<i64: 7, 7>}
  // CHECK-SAME: : (tensor<2x8x20x20xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x7xf32>
  %0 = "stepwell.roi_align"(%x, %b, %i) {sizes = array<i64: 7, 7>, scale = 0.25 : f64, samples = 2 : i64}
    : (tensor<2x8x20x20xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x7xf32>
  // CHECK: "stepwell.roi_max_pool"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) {sizes = array<i64: 7, 7>}
  // CHECK-SAME: : (tensor<2x8x20x20xf32>, tensor<5x5xf32>) -> tensor<5x8x7x7xf32>
  %1 = "stepwell.roi_max_pool"(%x, %c) {sizes = array<i64: 7, 7>}
    : (tensor<2x8x20x20xf32>, tensor<5x5xf32>) -> tensor<5x8x7x7xf32>
  return
}
