// RUN: split-file %s %t
// RUN: not stepwell-opt %t/none.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not stepwell-opt %t/band.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=BAND
// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=MASK
// RUN: not stepwell-opt %t/half.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state="pages=0" 2>&1 | FileCheck %s --check-prefix=PAGES

// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state="cache=int3" 2>&1 | FileCheck %s --check-prefix=CACHE

// CACHE: option 'cache' of pass 'stepwell-page-state' must be float or int8, but is 'int3'
// PAGES: the size of a page and the numbers of pages must be at least 1

// The appended keys are not returned, so no later call could read them.
// NONE: @main has no input [texts, heads, tokens, depth] to which it appends keys or values
//--- none.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32>
  return %1 : tensor<1x2x1x8xf32>
}

// BAND: the attention 'layer' sees a band of keys by their positions
//--- band.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64, before = 2 : i64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}

// MASK: the state of attention 'layer' has no pages: it has no mask with four dimensions
//--- mask.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}

// HALF: the state of attention 'layer' has no pages: only its keys or only its values can be paged
//--- half.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %v: tensor<1x2x4x8xf32>, %mask: tensor<1x1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %v, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}
