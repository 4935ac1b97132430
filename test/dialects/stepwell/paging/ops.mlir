// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @paging
func.func @paging(%pool: tensor<2x16x8xi8>, %by: tensor<2x16x1xf32>, %new: tensor<3x2x1x8xi8>, %slots: tensor<3x1xi64>, %q: tensor<3x4x1x8xf32>, %pages: tensor<3x4xi64>, %starts: tensor<3xi64>, %mask: tensor<3x1x1x16xi1>) {
  // CHECK: "stepwell.store_rows"(%{{[^ ,)]+}}, %{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<2x16x8xi8>, tensor<3x2x1x8xi8>, tensor<3x1xi64>) -> tensor<2x16x8xi8>
  %0 = "stepwell.store_rows"(%pool, %new, %slots) : (tensor<2x16x8xi8>, tensor<3x2x1x8xi8>, tensor<3x1xi64>) -> tensor<2x16x8xi8>
  // CHECK: "stepwell.paged_attention"{{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64
  %1 = "stepwell.paged_attention"(%q, %0, %0, %pages, %starts, %mask, %by, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  return
}

// CHECK-LABEL: func.func @pairs_in_bytes
func.func @pairs_in_bytes(%pool: tensor<2x16x4xui8>, %by: tensor<2x16x1xf32>, %q: tensor<3x4x1x8xf32>, %pages: tensor<3x4xi64>, %starts: tensor<3xi64>, %mask: tensor<3x1x1x16xi1>) {
  // CHECK: "stepwell.paged_attention"{{.*}}tensor<2x16x4xui8>, tensor<2x16x4xui8>, {{.*}} -> tensor<3x4x1x8xf32>
  %1 = "stepwell.paged_attention"(%q, %pool, %pool, %pages, %starts, %mask, %by, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x4xui8>, tensor<2x16x4xui8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  return
}
