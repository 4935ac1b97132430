// RUN: stepwell-opt %s --stepwell-page-state="page-size=4 pages=8 pages-of-text=3" | FileCheck %s

// Keys and values of shorter floats, which attention reads as f32, are stored as they are, and read where they are.
// CHECK:      func.func @main(%[[Q:[a-z0-9]+]]: {{.*}} %[[KEY:[a-z0-9]+]]: tensor<2x32x8xf16> {stepwell.dims = [2, 32, 8], stepwell.name = "keys"}
// CHECK:      %[[ROWS:.+]] = "stepwell.store_rows"(%[[KEY]], %{{.+}}, %{{.+}}) : (tensor<2x32x8xf16>
// CHECK-NOT:  "stepwell.cast"
// CHECK:      %[[MADE:.+]] = "stepwell.paged_attention"(%[[Q]], %[[ROWS]], %[[ROWS]],
// CHECK:      return %[[MADE]], %[[ROWS]]
func.func @main(%q: tensor<1x4x1x8xf32> {stepwell.name = "q"}, %new: tensor<1x2x1x8xf16> {stepwell.name = "new"}, %past: tensor<1x2x3x8xf16> {stepwell.name = "keys"}, %mask: tensor<1x1x1x4xi1> {stepwell.name = "mask"}) -> (tensor<1x4x1x8xf32>, tensor<1x2x4x8xf16>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf16>, tensor<1x2x1x8xf16>) -> tensor<1x2x4x8xf16>
  %1 = "stepwell.cast"(%0) {dtype = f32} : (tensor<1x2x4x8xf16>) -> tensor<1x2x4x8xf32>
  %2 = "stepwell.attention"(%q, %1, %1, %mask) {scale = 1.0 : f64} : (tensor<1x4x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x4x1x8xf32>
  return %2, %0 : tensor<1x4x1x8xf32>, tensor<1x2x4x8xf16>
}
