// RUN: split-file %s %t
// RUN: not stepwell-opt %t/none.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not stepwell-opt %t/band.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=BAND
// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=MASK
// RUN: not stepwell-opt %t/half.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state="pages=0" 2>&1 | FileCheck %s --check-prefix=PAGES
// RUN: not stepwell-opt %t/rank.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not stepwell-opt %t/finite.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=FINITE
// RUN: not stepwell-opt %t/named.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: not stepwell-opt %t/texts.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=TEXTS
// RUN: not stepwell-opt %t/dynamic.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=DYNAMIC
// RUN: not stepwell-opt %t/axis.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not stepwell-opt %t/query.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=QUERY
// RUN: not stepwell-opt %t/unread.mlir --stepwell-page-state 2>&1 | FileCheck %s --check-prefix=UNREAD

// RUN: not stepwell-opt %t/mask.mlir --stepwell-page-state="cache=int3" 2>&1 | FileCheck %s --check-prefix=CACHE

// RUN: not stepwell-opt %t/odd.mlir --stepwell-page-state="cache=int4" 2>&1 | FileCheck %s --check-prefix=ODD

// CACHE: option 'cache' of pass 'stepwell-page-state' must be float or int8 or int4, but is 'int3'
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

// RANK: the state of attention 'layer' has no pages: it has no mask with four dimensions
//--- rank.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}

// FINITE: the state of attention 'layer' has no pages: it masks with a finite number instead of minus infinity
//--- finite.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64, masked = -1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}

// NAMED: there is an input called 'page_table' already, which is the name of one that is added
//--- named.mlir
func.func @main(%q: tensor<1x2x1x8xf32> {stepwell.name = "page_table"}, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>
}

// TEXTS: input 'input4' has other texts or tokens than the first input with keys and values
//--- texts.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x1x4xi1>, %more: tensor<2x2x3x8xf32>, %p: tensor<2x2x1x8xf32>, %n: tensor<2x1x1x4xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  %2 = "stepwell.concat"(%more, %p) {axis = 2 : i64} : (tensor<2x2x3x8xf32>, tensor<2x2x1x8xf32>) -> tensor<2x2x4x8xf32>
  %3 = "stepwell.attention"(%p, %2, %2, %n) {scale = 1.0 : f64} : (tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x1x1x4xi1>) -> tensor<2x2x1x8xf32> loc("layer")
  return %1, %0, %3, %2 : tensor<1x2x1x8xf32>, tensor<1x2x4x8xf32>, tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>
}

// DYNAMIC: the shape of input 'input2' is not known: run stepwell-infer-shapes first
//--- dynamic.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x?x8xf32>, %mask: tensor<1x1x1x?xi1>) -> (tensor<1x2x1x8xf32>, tensor<1x2x?x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x?x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x?x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x1x1x?xi1>) -> tensor<1x2x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x1x8xf32>, tensor<1x2x?x8xf32>
}

// Heads are appended, no tokens.
// AXIS: @main has no input [texts, heads, tokens, depth] to which it appends keys or values
//--- axis.mlir
func.func @main(%q: tensor<1x4x1x8xf32>, %new: tensor<1x1x3x8xf32>, %past: tensor<1x3x3x8xf32>, %mask: tensor<1x1x1x3xi1>) -> (tensor<1x4x1x8xf32>, tensor<1x4x3x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 1 : i64} : (tensor<1x3x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x4x1x8xf32>, tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>, tensor<1x1x1x3xi1>) -> tensor<1x4x1x8xf32> loc("layer")
  return %1, %0 : tensor<1x4x1x8xf32>, tensor<1x4x3x8xf32>
}

// The tokens of queries are no state.
// QUERY: @main has no input [texts, heads, tokens, depth] to which it appends keys or values
//--- query.mlir
func.func @main(%k: tensor<1x2x4x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>, %mask: tensor<1x1x4x4xi1>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = "stepwell.attention"(%0, %k, %k, %mask) {scale = 1.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x4x4xi1>) -> tensor<1x2x4x8xf32> loc("layer")
  return %1, %0 : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>
}

// No attention reads the keys.
// UNREAD: @main has no input [texts, heads, tokens, depth] to which it appends keys or values
//--- unread.mlir
func.func @main(%q: tensor<1x2x1x8xf32>, %new: tensor<1x2x1x8xf32>, %past: tensor<1x2x3x8xf32>) -> (tensor<1x2x4x8xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}

// ODD: keys and values of 7 elements are no pairs for bytes
//--- odd.mlir
func.func @main(%q: tensor<1x2x1x7xf32>, %new: tensor<1x2x1x7xf32>, %past: tensor<1x2x3x7xf32>, %mask: tensor<1x1x1x4xi1>) -> (tensor<1x2x1x7xf32>, tensor<1x2x4x7xf32>) {
  %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64} : (tensor<1x2x3x7xf32>, tensor<1x2x1x7xf32>) -> tensor<1x2x4x7xf32>
  %1 = "stepwell.attention"(%q, %0, %0, %mask) {scale = 1.0 : f64} : (tensor<1x2x1x7xf32>, tensor<1x2x4x7xf32>, tensor<1x2x4x7xf32>, tensor<1x1x1x4xi1>) -> tensor<1x2x1x7xf32>
  return %1, %0 : tensor<1x2x1x7xf32>, tensor<1x2x4x7xf32>
}
