// RUN: stepwell-opt %s --stepwell-decompose | FileCheck %s
// RUN: stepwell-opt %s --stepwell-decompose="attention=none" | FileCheck %s --check-prefix=NONE

// Many queries read copies of the rows; a mask that hides padding still does. For the padding, the text's first row is
// read, as other rows may contain NaN.
// CHECK-LABEL: func.func @many(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x4x8x8xf32>, %[[K:[a-z0-9]+]]: tensor<2x16x8xf32>
// CHECK-SAME:    %[[INSIDE:[a-z0-9]+]]: tensor<12xi1>)
// CHECK:         %[[SHOWN:.+]] = "stepwell.cast"(%[[INSIDE]]) {dtype = i64}
// CHECK:         %[[PLACES:.+]] = "stepwell.mask"(%{{.+}}, %[[SHOWN]]) {extent = 0 : i64, otherwise = 0.000000e+00 : f64}
// CHECK:         "stepwell.div"(%[[PLACES]]
// CHECK:         "stepwell.mod"(%[[PLACES]]
// CHECK:         %[[SLOTS:.+]] = "stepwell.add"({{.*}}) : (tensor<2x12xi64>, tensor<2x12xi64>) -> tensor<2x12xi64>
// CHECK:         %[[SEEN:.+]] = "stepwell.and"
// CHECK:         %[[MASK:.+]] = "stepwell.mask"(%[[SEEN]]
// CHECK-SAME:      extent = 0 : i64
// CHECK:         %[[ROWS:.+]] = "stepwell.gather"(%[[K]], %[[SLOTS]]) {axis = 1 : i64
// CHECK:         %[[KEYS:.+]] = "stepwell.transpose"(%[[ROWS]]) {permutation = array<i64: 1, 0, 2, 3>}
// CHECK:         "stepwell.attention"(%[[Q]], %[[KEYS]], %{{.+}}, %[[MASK]])
func.func @many(%q: tensor<2x4x8x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %seen: tensor<2x1x8x12xi1>, %inside: tensor<12xi1>) -> tensor<2x4x8x8xf32> {
  %mask = "stepwell.mask"(%seen, %inside) {otherwise = 0.0 : f64, extent = 0 : i64} : (tensor<2x1x8x12xi1>, tensor<12xi1>) -> tensor<2x1x8x12xi1>
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x8x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x8x12xi1>) -> tensor<2x4x8x8xf32>
  return %0 : tensor<2x4x8x8xf32>
}

// Few queries read pages in place, if the target has such kernels.
// CHECK-LABEL: func.func @negative_few(
// CHECK:         "stepwell.paged_attention"
// NONE-LABEL:  func.func @negative_few(
// NONE-NOT:      "stepwell.paged_attention"
// NONE:          "stepwell.select"
func.func @negative_few(%q: tensor<2x4x1x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x12xf32>) -> tensor<2x4x1x8xf32> {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x12xf32>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// Copies of rows of bytes are multiplied by their scales. A mask without padding changes no positions.
// CHECK-LABEL: func.func @bytes(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: tensor<2x16x8xi8>
// CHECK-SAME:    %[[KS:[a-z0-9]+]]: tensor<2x16x1xf32>
// CHECK-NOT:     "stepwell.mask"
// CHECK:         %[[ROWS:.+]] = "stepwell.gather"(%[[K]], %[[SLOTS:.+]]) {axis = 1 : i64
// CHECK:         %[[KEYS:.+]] = "stepwell.transpose"(%[[ROWS]])
// CHECK:         %[[WIDE:.+]] = "stepwell.cast"(%[[KEYS]]) {dtype = f32} : (tensor<2x2x12x8xi8>)
// CHECK:         %[[SCALES:.+]] = "stepwell.gather"(%[[KS]], %[[SLOTS]]) {axis = 1 : i64
// CHECK:         %[[BY:.+]] = "stepwell.transpose"(%[[SCALES]])
// CHECK:         "stepwell.mul"(%[[WIDE]], %[[BY]]) : (tensor<2x2x12x8xf32>, tensor<2x2x12x1xf32>) -> tensor<2x2x12x8xf32>
// CHECK:         "stepwell.attention"
func.func @bytes(%q: tensor<2x4x8x8xf32>, %k: tensor<2x16x8xi8>, %v: tensor<2x16x8xi8>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x8x12xi1>, %ks: tensor<2x16x1xf32>, %vs: tensor<2x16x1xf32>) -> tensor<2x4x8x8xf32> {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask, %ks, %vs) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x8x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x8x12xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<2x4x8x8xf32>
  return %0 : tensor<2x4x8x8xf32>
}

// A byte of ui8 holds two elements, the lower one of which is in the first half of a row.
// CHECK-LABEL: func.func @pairs(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: tensor<2x16x4xui8>
// CHECK:         %[[ROWS:.+]] = "stepwell.gather"(%[[K]], %{{.+}}) {axis = 1 : i64
// CHECK:         %[[KEYS:.+]] = "stepwell.transpose"(%[[ROWS]])
// CHECK:         %[[BOTH:.+]] = "stepwell.cast"(%[[KEYS]]) {dtype = f32} : (tensor<2x2x12x4xui8>)
// CHECK:         %[[HIGH:.+]] = "stepwell.floor"
// CHECK:         %[[UPPER:.+]] = "stepwell.mul"(%[[HIGH]]
// CHECK:         %[[LOW:.+]] = "stepwell.sub"(%[[BOTH]], %[[UPPER]])
// CHECK:         %[[WHOLE:.+]] = "stepwell.concat"(%[[LOW]], %[[HIGH]]) {axis = -1 : i64}
// CHECK:         %[[WIDE:.+]] = "stepwell.sub"(%[[WHOLE]]
// CHECK:         "stepwell.mul"(%[[WIDE]], %{{.+}}) : (tensor<2x2x12x8xf32>, tensor<2x2x12x1xf32>) -> tensor<2x2x12x8xf32>
func.func @pairs(%q: tensor<2x4x8x8xf32>, %k: tensor<2x16x4xui8>, %v: tensor<2x16x4xui8>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x8x12xi1>, %ks: tensor<2x16x1xf32>, %vs: tensor<2x16x1xf32>) -> tensor<2x4x8x8xf32> {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask, %ks, %vs) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x8x8xf32>, tensor<2x16x4xui8>, tensor<2x16x4xui8>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x8x12xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<2x4x8x8xf32>
  return %0 : tensor<2x4x8x8xf32>
}
