// RUN: stepwell-opt %s --stepwell-convert-to-linalg --split-input-file --verify-diagnostics | FileCheck %s

// One column group: the epilogue is one op that writes into a view of the destination.
// CHECK-LABEL: func.func private @matmul_with_epilogue
// CHECK-SAME: (%[[X:.+]]: tensor<8x4xf32>, %[[W:.+]]: tensor<256xf32>, %[[B:.+]]: tensor<64xf32>, %[[OUT:.+]]: tensor<8x64xf32>)
// CHECK: %[[VIEW:.+]] = tensor.expand_shape %[[OUT]] {{.*}} into tensor<8x2x32xf32>
// CHECK: %[[ZERO:.+]] = linalg.fill
// CHECK: %[[PANELS:.+]] = tensor.expand_shape %[[W]] {{.*}} into tensor<2x4x32xf32>
// CHECK: %[[SUM:.+]] = linalg.generic {{.*}} ins(%[[X]], %[[PANELS]] : {{.*}}) outs(%[[ZERO]] : {{.*}}) {{.*}}stepwell.contraction = 0
// CHECK: %[[BIAS:.+]] = tensor.expand_shape %[[B]] {{.*}} into tensor<2x32xf32>
// CHECK: linalg.generic {{.*}} ins(%[[SUM]], %[[BIAS]] : {{.*}}) outs(%[[VIEW]] : {{.*}}) {{.*}}stepwell.root = 0
// CHECK-NOT: linalg.generic
func.func private @matmul_with_epilogue(%x: tensor<8x4xf32>, %w: tensor<256xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 64 : i64, panel = 32 : i64} : (tensor<8x4xf32>, tensor<256xf32>) -> tensor<8x64xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %2 = "stepwell.relu"(%1) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// -----

// Two column groups; the second has the remaining columns.
// CHECK-LABEL: func.func private @matmul_with_tail
// CHECK: tensor.extract_slice %{{.+}}[0, 0] [8, 32]
// CHECK: stepwell.contraction = 0
// CHECK: tensor.extract_slice %{{.+}}[0, 32] [8, 3]
// CHECK: stepwell.contraction = 1
func.func private @matmul_with_tail(%x: tensor<8x4xf32>, %w: tensor<140xf32>) -> tensor<8x35xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 35 : i64, panel = 32 : i64} : (tensor<8x4xf32>, tensor<140xf32>) -> tensor<8x35xf32>
  return %0 : tensor<8x35xf32>
}

// -----

// Batch and rows are merged unless an operand is broadcast along one of them.
// CHECK-LABEL: func.func private @matmul_merged_rows
// CHECK: tensor.collapse_shape %{{.+}} : tensor<2x5x4xf32> into tensor<10x4xf32>
func.func private @matmul_merged_rows(%x: tensor<2x5x4xf32>, %w: tensor<128xf32>) -> tensor<2x5x32xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 32 : i64, panel = 32 : i64} : (tensor<2x5x4xf32>, tensor<128xf32>) -> tensor<2x5x32xf32>
  return %0 : tensor<2x5x32xf32>
}

// -----

// CHECK-DAG: #[[$IN:.+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0 * 2 + d4, d1 * 2 + d5, d6)>
// CHECK-LABEL: func.func private @conv_with_stride
// CHECK: linalg.generic {indexing_maps = [#[[$IN]],
func.func private @conv_with_stride(%x: tensor<1x9x9x4xf32>, %w: tensor<1152xf32>) -> tensor<1x4x4x32xf32>
    attributes {stepwell.kernel = {class = "convolution"}} {
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, kernel = array<i64: 3, 3>,
    strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x9x9x4xf32>, tensor<1152xf32>) -> tensor<1x4x4x32xf32>
  return %0 : tensor<1x4x4x32xf32>
}

// -----

// expected-error @+1 {{a kernel of class 'contraction' must have an op of that class}}
func.func private @negative_no_contraction(%x: tensor<8x4xf32>) -> tensor<8x4xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.relu"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
