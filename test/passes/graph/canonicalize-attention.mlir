// RUN: stepwell-opt %s --split-input-file --stepwell-canonicalize | FileCheck %s

// A mask that excludes no key is none.
// CHECK-LABEL: func.func @mask_of_true
// CHECK:         "stepwell.attention"(%arg0, %arg0, %arg0) {
func.func @mask_of_true(%x: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %mask = "stepwell.constant"() {value = dense<true> : tensor<1x1x6x6xi1>} : () -> tensor<1x1x6x6xi1>
  %0 = "stepwell.attention"(%x, %x, %x, %mask) {scale = 1.0 : f64, zero_empty = true} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x6x6xi1>) -> tensor<1x2x6x8xf32>
  return %0 : tensor<1x2x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_mask_of_false
// CHECK:         "stepwell.attention"(%arg0, %arg0, %arg0, %{{.+}}) {
func.func @negative_mask_of_false(%x: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %mask = "stepwell.constant"() {value = dense<false> : tensor<1x1x6x6xi1>} : () -> tensor<1x1x6x6xi1>
  %0 = "stepwell.attention"(%x, %x, %x, %mask) {scale = 1.0 : f64, zero_empty = true} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x6x6xi1>) -> tensor<1x2x6x8xf32>
  return %0 : tensor<1x2x6x8xf32>
}
