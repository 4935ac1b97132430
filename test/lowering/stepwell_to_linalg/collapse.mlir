// RUN: stepwell-opt %s --stepwell-convert-to-linalg | FileCheck %s

// Rows, columns and channels are collapsed as far as the bias allows.
// CHECK-LABEL: func.func private @image
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<48x16xf32>, tensor<16xf32>)
func.func private @image(%x: tensor<1x8x6x16xf32>, %b: tensor<16xf32>) -> tensor<1x8x6x16xf32>
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.mul"(%x, %b) : (tensor<1x8x6x16xf32>, tensor<16xf32>) -> tensor<1x8x6x16xf32>
  return %0 : tensor<1x8x6x16xf32>
}

// The live columns of a row are not contiguous with those of the next row, with or without a dimension of 1 before.
// CHECK-LABEL: func.func private @negative_columns_vary
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<8x6x16xf32>, tensor<16xf32>)
func.func private @negative_columns_vary(%x: tensor<1x8x6x16xf32>, %b: tensor<16xf32>, %table: tensor<256xi64>) -> tensor<1x8x6x16xf32>
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: -1, 0, 1, -1>, stepwell.table_argument = 2 : i64} {
  %0 = "stepwell.mul"(%x, %b) : (tensor<1x8x6x16xf32>, tensor<16xf32>) -> tensor<1x8x6x16xf32>
  return %0 : tensor<1x8x6x16xf32>
}

// The live rows are contiguous.
// CHECK-LABEL: func.func private @rows_vary
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<48x16xf32>, tensor<16xf32>)
func.func private @rows_vary(%x: tensor<1x8x6x16xf32>, %b: tensor<16xf32>, %table: tensor<256xi64>) -> tensor<1x8x6x16xf32>
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: -1, 0, -1, -1>, stepwell.table_argument = 2 : i64} {
  %0 = "stepwell.mul"(%x, %b) : (tensor<1x8x6x16xf32>, tensor<16xf32>) -> tensor<1x8x6x16xf32>
  return %0 : tensor<1x8x6x16xf32>
}
