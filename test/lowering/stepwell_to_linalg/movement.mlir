// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// Dimensions that stay adjacent are merged: height and width are transposed as one.

// CHECK-DAG: #[[$SOURCE:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func private @transpose(
// CHECK: linalg.generic {{.*}}#[[$SOURCE]]{{.*}} ins(%{{.*}} : tensor<3x20xf32>) outs(%{{.*}} : tensor<20x3xf32>)
func.func private @transpose(%x: tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  return %0 : tensor<1x4x5x3xf32>
}

// CHECK-LABEL: func.func private @concat(
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<4x12xf32>)
// CHECK: %[[LEFT:.*]] = tensor.extract_slice %[[OUT]][0, 0] [4, 8] [1, 1]
// CHECK: linalg.generic {{.*}} outs(%[[LEFT]]
// CHECK: %[[HALF:.*]] = tensor.insert_slice
// CHECK: %[[RIGHT:.*]] = tensor.extract_slice %[[HALF]][0, 8] [4, 4] [1, 1]
// CHECK: linalg.generic {{.*}} outs(%[[RIGHT]]
func.func private @concat(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<4x12xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.concat"(%x, %y) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  return %0 : tensor<4x12xf32>
}

// A nested concatenation is not stored: its parts are copied.

// CHECK-LABEL: func.func private @chain(
// CHECK-NOT: tensor.empty
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func private @chain(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<4x20xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.concat"(%x, %y) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %1 = "stepwell.concat"(%0, %x) {axis = 1 : i64} : (tensor<4x12xf32>, tensor<4x8xf32>) -> tensor<4x20xf32>
  return %1 : tensor<4x20xf32>
}

// A concatenation along another axis is a single part.

// CHECK-LABEL: func.func private @negative_chain(
// CHECK: tensor.empty() : tensor<4x12xf32>
// CHECK-COUNT-4: linalg.generic
func.func private @negative_chain(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<8x12xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.concat"(%x, %y) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %1 = "stepwell.concat"(%0, %0) {axis = 0 : i64} : (tensor<4x12xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// Steps along rows are in the map, because a view with gaps would be read element by element.

// CHECK-LABEL: func.func private @gaps(
// CHECK-NOT: tensor.extract_slice {{.*}}[1, 2]
// CHECK: linalg.generic
func.func private @gaps(%x: tensor<4x32xf32>) -> tensor<4x16xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 1>, stops = array<i64: 4, 32>, steps = array<i64: 1, 2>} : (tensor<4x32xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// CHECK-LABEL: func.func private @gather(
// CHECK: arith.select
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %{{.*}}] : tensor<100x48xf32>
func.func private @gather(%x: tensor<100x48xf32>, %i: tensor<5xi64>) -> tensor<5x48xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.gather"(%x, %i) {axis = 0 : i64} : (tensor<100x48xf32>, tensor<5xi64>) -> tensor<5x48xf32>
  return %0 : tensor<5x48xf32>
}

// Tables made at compile time hold the source indices of elements.

// CHECK-LABEL: func.func private @resize(
// CHECK-DAG: arith.constant dense<[0, 0, 1, 1]> : tensor<4xi64>
// CHECK: linalg.generic
// CHECK: tensor.extract
func.func private @resize(%x: tensor<1x2x2x8xf32>) -> tensor<1x4x4x8xf32> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.resize"(%x) {sizes = array<i64: 1, 4, 4, 8>, scales = dense<[1.0, 2.0, 2.0, 1.0]> : tensor<4xf32>, mode = "nearest", coordinates = "asymmetric", nearest = "floor", layout = "channels_last"} : (tensor<1x2x2x8xf32>) -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}
