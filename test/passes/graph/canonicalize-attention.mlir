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

// -----

// An additive mask of zeros changes no score, and one of ones changes each by the same: only the first is dropped.
// CHECK-LABEL: func.func @mask_of_zeros
// CHECK:         "stepwell.attention"(%arg0, %arg0, %arg0) {
// CHECK:         "stepwell.attention"(%arg0, %arg0, %arg0, %{{.+}}) {
func.func @mask_of_zeros(%x: tensor<1x2x6x8xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) {
  %zeros = "stepwell.constant"() {value = dense<0.0> : tensor<1x1x6x6xf32>} : () -> tensor<1x1x6x6xf32>
  %ones = "stepwell.constant"() {value = dense<1.0> : tensor<1x1x6x6xf32>} : () -> tensor<1x1x6x6xf32>
  %0 = "stepwell.attention"(%x, %x, %x, %zeros) {scale = 1.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x6x6xf32>) -> tensor<1x2x6x8xf32>
  %1 = "stepwell.attention"(%x, %x, %x, %ones) {scale = 1.0 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x1x6x6xf32>) -> tensor<1x2x6x8xf32>
  return %0, %1 : tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>
}

// -----

// Each head of keys and values serves two heads of queries.
// CHECK-LABEL: func.func @shared_heads
// CHECK-SAME:    (%[[Q:.+]]: tensor<1x4x6x8xf32>, %{{.+}}: tensor<1x2x1x6x8xf32>)
// CHECK-NEXT:    %[[K:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 2, 6, 8>}
// CHECK:         "stepwell.attention"(%[[Q]],
// CHECK-SAME:    (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>)
func.func @shared_heads(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x1x6x8xf32>) -> tensor<1x4x6x8xf32> {
  %wide = "stepwell.broadcast_to"(%k) {shape = array<i64: 1, 2, 2, 6, 8>} : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x2x6x8xf32>
  %0 = "stepwell.reshape"(%wide) {shape = array<i64: 1, 4, 6, 8>} : (tensor<1x2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0) {scale = 1.0 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %1 : tensor<1x4x6x8xf32>
}

// -----

// These heads alternate instead of being repeated one after the other: head 1 of the queries reads head 1 of the keys.
// CHECK-LABEL: func.func @negative_alternating_heads
// CHECK:         "stepwell.attention"
// CHECK-SAME:    (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
func.func @negative_alternating_heads(%q: tensor<1x4x6x8xf32>, %k: tensor<1x1x2x6x8xf32>) -> tensor<1x4x6x8xf32> {
  %wide = "stepwell.broadcast_to"(%k) {shape = array<i64: 1, 2, 2, 6, 8>} : (tensor<1x1x2x6x8xf32>) -> tensor<1x2x2x6x8xf32>
  %0 = "stepwell.reshape"(%wide) {shape = array<i64: 1, 4, 6, 8>} : (tensor<1x2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0) {scale = 1.0 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %1 : tensor<1x4x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_only_keys_are_shared
// CHECK:         "stepwell.attention"
// CHECK-SAME:    (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
func.func @negative_only_keys_are_shared(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x1x6x8xf32>) -> tensor<1x4x6x8xf32> {
  %wide = "stepwell.broadcast_to"(%k) {shape = array<i64: 1, 2, 2, 6, 8>} : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x2x6x8xf32>
  %0 = "stepwell.reshape"(%wide) {shape = array<i64: 1, 4, 6, 8>} : (tensor<1x2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
  %1 = "stepwell.attention"(%q, %0, %q) {scale = 1.0 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %1 : tensor<1x4x6x8xf32>
}
