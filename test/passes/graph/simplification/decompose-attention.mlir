// RUN: stepwell-opt %s --split-input-file --stepwell-decompose | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-decompose=attention=tiles | FileCheck %s --check-prefix=TILES
// RUN: stepwell-opt %s --split-input-file --stepwell-decompose=attention=none | FileCheck %s --check-prefix=NONE

// No kernel computes doubles. Query heads that share a key head become rows of one matrix; the bool mask becomes a select.
// CHECK-LABEL: func.func @doubles
// CHECK:         %[[S:.+]] = "stepwell.mul"(%{{.+}}, %{{.+}}) : (tensor<1x4x3x8xf64>
// CHECK:         %[[Q:.+]] = "stepwell.reshape"(%[[S]]) {shape = array<i64: 1, 2, 6, 8>}
// CHECK:         "stepwell.matmul"(%[[Q]], %{{.+}}) {transpose_rhs = true}
// CHECK:         "stepwell.select"
// CHECK:         "stepwell.softmax"
// CHECK:         "stepwell.matmul"
// CHECK-NOT:     stepwell.attention
// TILES-LABEL: func.func @doubles
// TILES-NOT:     stepwell.attention
// TILES:         stepwell.softmax
// TILES-NOT:     stepwell.attention
// TILES:         return
func.func @doubles(%q: tensor<1x4x3x8xf64>, %k: tensor<1x2x5x8xf64>, %v: tensor<1x2x5x8xf64>, %m: tensor<3x5xi1>)
    -> tensor<1x4x3x8xf64> {
  %0 = "stepwell.attention"(%q, %k, %v, %m) {scale = 0.5 : f64}
      : (tensor<1x4x3x8xf64>, tensor<1x2x5x8xf64>, tensor<1x2x5x8xf64>, tensor<3x5xi1>) -> tensor<1x4x3x8xf64>
  return %0 : tensor<1x4x3x8xf64>
}

// -----

// The products need shapes.
// CHECK-LABEL: func.func @negative_dynamic_shapes
// CHECK:         stepwell.attention
func.func @negative_dynamic_shapes(%q: tensor<1x4x?x8xf32>, %k: tensor<1x4x?x8xf32>, %v: tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64}
      : (tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}

// -----

// Queries are lanes, or rows of tiles.
// CHECK-LABEL: func.func @negative_floats
// CHECK-NEXT: stepwell.attention
// TILES-LABEL: func.func @negative_floats
// TILES-NEXT: stepwell.attention
// NONE-LABEL: func.func @negative_floats
// NONE-NOT: stepwell.attention
func.func @negative_floats(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32>
  return %0 : tensor<1x2x6x8xf32>
}

// -----

// Only matrix units multiply bf16.
// CHECK-LABEL: func.func @negative_tiles_of_bf16
// CHECK-NOT: stepwell.attention
// TILES-LABEL: func.func @negative_tiles_of_bf16
// TILES-NEXT: stepwell.attention
// NONE-LABEL: func.func @negative_tiles_of_bf16
// NONE-NOT: stepwell.attention
func.func @negative_tiles_of_bf16(%q: tensor<1x2x6x8xbf16>, %k: tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16>
  return %0 : tensor<1x2x6x8xbf16>
}

// -----

// Rows of tiles have between 8 and 256 columns; lanes have any number.
// CHECK-LABEL: func.func @negative_lanes_of_any_depth
// CHECK-NEXT: stepwell.attention
// TILES-LABEL: func.func @negative_lanes_of_any_depth
// TILES-NOT: stepwell.attention
// NONE-LABEL: func.func @negative_lanes_of_any_depth
// NONE-NOT: stepwell.attention
func.func @negative_lanes_of_any_depth(%q: tensor<1x2x6x4xf32>, %k: tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32>
  return %0 : tensor<1x2x6x4xf32>
}

// -----

// Only tiles leave out the keys outside of a band.
// CHECK-LABEL: func.func @negative_tiles_in_a_band
// CHECK-NOT: stepwell.attention
// TILES-LABEL: func.func @negative_tiles_in_a_band
// TILES-NEXT: stepwell.attention
// NONE-LABEL: func.func @negative_tiles_in_a_band
// NONE-NOT: stepwell.attention
func.func @negative_tiles_in_a_band(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64, before = 2 : i64, after = 0 : i64} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32>
  return %0 : tensor<1x2x6x8xf32>
}

// -----

// The scores of 4097 keys leave the cache, but not the registers.
// CHECK-LABEL: func.func @negative_tiles_of_many_keys
// CHECK-NOT: stepwell.attention
// TILES-LABEL: func.func @negative_tiles_of_many_keys
// TILES-NEXT: stepwell.attention
// NONE-LABEL: func.func @negative_tiles_of_many_keys
// NONE-NOT: stepwell.attention
func.func @negative_tiles_of_many_keys(%q: tensor<1x2x6x8xf32>, %k: tensor<1x2x4097x8xf32>) -> tensor<1x2x6x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x2x6x8xf32>, tensor<1x2x4097x8xf32>, tensor<1x2x4097x8xf32>) -> tensor<1x2x6x8xf32>
  return %0 : tensor<1x2x6x8xf32>
}

// -----

// Four queries are computed one by one, with any number of keys.
// CHECK-LABEL: func.func @negative_few_queries
// CHECK-NEXT: stepwell.attention
// TILES-LABEL: func.func @negative_few_queries
// TILES-NEXT: stepwell.attention
// NONE-LABEL: func.func @negative_few_queries
// NONE-NOT: stepwell.attention
func.func @negative_few_queries(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4097x8xf32>) -> tensor<1x2x4x8xf32> {
  %0 = "stepwell.attention"(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4097x8xf32>, tensor<1x2x4097x8xf32>) -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}

// -----

// Keys outside of the band, and weights of queries without keys.
// CHECK-LABEL: func.func @band
// CHECK: %[[NEAR:.+]] = "stepwell.constant"() {value = dense<{{\[\[}}true, false, false], [true, true, false], [false, true, true]]> : tensor<3x3xi1>}
// CHECK: "stepwell.select"(%[[NEAR]],
// CHECK: %[[WEIGHTS:.+]] = "stepwell.softmax"
// CHECK: %[[GREATEST:.+]] = "stepwell.reduce_max"
// CHECK: %[[EMPTY:.+]] = "stepwell.equal"(%[[GREATEST]],
// CHECK: "stepwell.select"(%[[EMPTY]], %{{.+}}, %[[WEIGHTS]])
func.func @band(%q: tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %0 = "stepwell.attention"(%q, %q, %q) {scale = 0.5 : f64, before = 1 : i64, after = 0 : i64, zero_empty = true}
    : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return %0 : tensor<1x2x3x8xf32>
}
