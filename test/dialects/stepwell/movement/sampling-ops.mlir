// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @sampling
func.func @sampling(%x: tensor<1x8x20x20xf32>, %p: tensor<1x2x5x7xf32>) {
  // CHECK: "stepwell.sample"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) {mode = "cubic", padding = "border"}
  // CHECK-SAME: : (tensor<1x8x20x20xf32>, tensor<1x2x5x7xf32>) -> tensor<1x8x5x7xf32>
  %0 = "stepwell.sample"(%x, %p) {mode = "cubic", padding = "border"}
    : (tensor<1x8x20x20xf32>, tensor<1x2x5x7xf32>) -> tensor<1x8x5x7xf32>
  return
}
