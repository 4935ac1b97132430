// RUN: stepwell-opt %s --verify-diagnostics

func.func @paging(%pool: tensor<2x16x8xf32>, %bytes: tensor<2x16x8xi8>, %by: tensor<2x16x1xf32>, %half: tensor<2x16x1xf16>, %few: tensor<2x8x1xf32>, %new: tensor<3x2x1x8xf32>, %slots: tensor<3x1xi64>, %q: tensor<3x4x1x8xf32>, %pages: tensor<3x4xi64>, %starts: tensor<3xi64>, %mask: tensor<3x1x1x16xi1>) {
  // expected-error @+1 {{'stepwell.store_rows' op operands must have one element type, but have i8, f32}}
  %0 = "stepwell.store_rows"(%bytes, %new, %slots) : (tensor<2x16x8xi8>, tensor<3x2x1x8xf32>, tensor<3x1xi64>) -> tensor<2x16x8xi8>
  // expected-error @+1 {{'stepwell.paged_attention' op operand 'key' must have the elements of the query, or shorter floats if these are f32, but is 2x16x8xi8}}
  %1 = "stepwell.paged_attention"(%q, %bytes, %bytes, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>) -> tensor<3x4x1x8xf32>
  // expected-error @+1 {{'stepwell.paged_attention' op operands 'key_scales' and 'value_scales' must be given together}}
  %2 = "stepwell.paged_attention"(%q, %bytes, %bytes, %pages, %starts, %mask, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  // expected-error @+1 {{'stepwell.paged_attention' op operand 'value' must be i8 or ui8, as its rows have scales, but is 2x16x8xf32}}
  %3 = "stepwell.paged_attention"(%q, %bytes, %pool, %pages, %starts, %mask, %by, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xf32>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  // expected-error @+1 {{'stepwell.paged_attention' op operand 'key_scales' must be f32, but is 2x16x1xf16}}
  %4 = "stepwell.paged_attention"(%q, %bytes, %bytes, %pages, %starts, %mask, %half, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf16>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  // expected-error @+1 {{'stepwell.paged_attention' op operand 'value_scales' must have shape 2x16x1, but is 2x8x1xf32}}
  %5 = "stepwell.paged_attention"(%q, %bytes, %bytes, %pages, %starts, %mask, %by, %few) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>, tensor<2x8x1xf32>) -> tensor<3x4x1x8xf32>
  // expected-error @+1 {{'stepwell.paged_attention' op attribute 'page_size' must divide the 16 rows of the pools, but is 3}}
  %6 = "stepwell.paged_attention"(%q, %bytes, %bytes, %pages, %starts, %mask, %by, %by) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 3 : i64, scale = 1.0 : f64}
    : (tensor<3x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<3x4xi64>, tensor<3xi64>, tensor<3x1x1x16xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<3x4x1x8xf32>
  return
}
