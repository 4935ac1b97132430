// RUN: stepwell-opt %s --split-input-file --pass-pipeline='builtin.module(stepwell-form-kernels,stepwell-convert-to-linalg)' | FileCheck %s

// Queries are the innermost dimension of the scores. Slices and transposes are views; the result is written in the
// layout after the last transpose.
// CHECK-DAG:   #[[$KEY:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK-DAG:   #[[$TURNED:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
// CHECK-LABEL: func.func private @kernel_0(
// CHECK-SAME:    %[[X:[^:]+]]: tensor<1x6x8x8xf32>, %[[V:[^:]+]]: tensor<1x4x6x8xf32>, %[[M:[^:]+]]: tensor<1x1x1x6xf32>, %[[OUT:[^:]+]]: tensor<1x6x4x8xf32>)
// CHECK-DAG:     %[[Q:.+]] = tensor.extract_slice %[[X]][0, 0, 0, 0] [1, 6, 4, 8]
// CHECK-DAG:     %[[K:.+]] = tensor.extract_slice %[[X]][0, 0, 4, 0] [1, 6, 4, 8]
// CHECK:         %[[T:.+]] = linalg.generic {{.*}} ins(%[[Q]] : {{.*}} {stepwell.loops = "bhdq", stepwell.role = "query"}
// CHECK:         linalg.generic {indexing_maps = [#[[$KEY]], #[[$TURNED]], #{{.+}}], {{.*}} ins(%[[K]], %[[T]] : {{.*}} {stepwell.loops = "bhkqd", stepwell.role = "scores"}
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhkq", stepwell.role = "masked"}
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhkq", stepwell.role = "greatest"}
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhkq", stepwell.role = "weights"}
// CHECK:         math.exp
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhkq", stepwell.role = "total"}
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bqhvk", stepwell.role = "sum"}
// CHECK:         %[[R:.+]] = linalg.generic {{.*}} outs(%[[OUT]] : {{.*}} {stepwell.loops = "bqhv", stepwell.role = "result"}
// CHECK:         return %[[R]]
func.func @main(%x: tensor<1x6x8x8xf32>, %v: tensor<1x4x6x8xf32>, %m: tensor<1x1x1x6xf32>) -> tensor<1x6x4x8xf32> {
  %1 = "stepwell.slice"(%x) {starts = array<i64: 0, 0, 0, 0>, stops = array<i64: 1, 6, 4, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x6x8x8xf32>) -> tensor<1x6x4x8xf32>
  %2 = "stepwell.slice"(%x) {starts = array<i64: 0, 0, 4, 0>, stops = array<i64: 1, 6, 8, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x6x8x8xf32>) -> tensor<1x6x4x8xf32>
  %q = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %k = "stepwell.transpose"(%2) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %a = "stepwell.attention"(%q, %k, %v, %m) {scale = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x1x1x6xf32>) -> tensor<1x4x6x8xf32>
  %t = "stepwell.transpose"(%a) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x6x8xf32>) -> tensor<1x6x4x8xf32>
  return %t : tensor<1x6x4x8xf32>
}

// -----

// A mask that differs between queries is transposed; heads that share a key have a separate loop.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "kq", stepwell.role = "mask"}
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhgkq", stepwell.role = "masked"}
// CHECK:         arith.trunci %{{.+}} : i8 to i1
// CHECK:         arith.select
func.func @main(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>, %m: tensor<6x6xi1>) -> tensor<1x4x6x8xf32> {
  %a = "stepwell.attention"(%q, %k, %k, %m) {scale = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<6x6xi1>) -> tensor<1x4x6x8xf32>
  return %a : tensor<1x4x6x8xf32>
}

// -----

// If many queries read long, non-contiguous rows, key and value are copied first.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK:         linalg.generic {{.*}} {stepwell.loops = "bhkd", stepwell.role = "key"}
// CHECK-NOT:     stepwell.role = "value"
func.func @main(%q: tensor<1x2x256x32xf32>, %x: tensor<1x256x2x32xf32>, %v: tensor<1x2x256x32xf32>) -> tensor<1x2x256x32xf32> {
  %k = "stepwell.transpose"(%x) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x256x2x32xf32>) -> tensor<1x2x256x32xf32>
  %a = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64} : (tensor<1x2x256x32xf32>, tensor<1x2x256x32xf32>, tensor<1x2x256x32xf32>) -> tensor<1x2x256x32xf32>
  return %a : tensor<1x2x256x32xf32>
}
