// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=cpu:icelake-server},stepwell-vectorize,canonicalize,cse)' --split-input-file | FileCheck %s --check-prefixes=CHECK,DOT
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3},stepwell-vectorize,canonicalize,cse)' --split-input-file | FileCheck %s --check-prefixes=CHECK,PAIRS

// Three taps of a channel are in one lane; the next position takes two of them from it. Without an instruction for four
// bytes, two taps are 16-bit integers, and the third is alone. Nothing is read after the last element.
// CHECK-LABEL: func.func private @taps
// DOT: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// DOT: %[[SECOND:.*]] = llvm.intr.fshr
// DOT: vector.bitcast %[[SECOND]]
// DOT: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// DOT: arith.shrui %[[SECOND]]
// PAIRS: arith.ori {{.*}} : vector<8xi32>
// PAIRS-COUNT-6: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK-NOT: arith.muli
func.func private @taps(%x: tensor<1x3x5x16xui8>, %w: tensor<3x3x16xi8>) -> tensor<1x1x3x16xi32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x5x16xui8>, tensor<3x3x16xi8>) -> tensor<1x1x3x16xi32>
  return %0 : tensor<1x1x3x16xi32>
}

// -----

// A single tap is multiplied alone.
// CHECK-LABEL: func.func private @negative_one_tap
// CHECK-NOT: call_intrinsic
// CHECK: arith.muli
func.func private @negative_one_tap(%x: tensor<1x3x2x16xui8>, %w: tensor<3x1x16xi8>) -> tensor<1x1x2x16xi32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x2x16xui8>, tensor<3x1x16xi8>) -> tensor<1x1x2x16xi32>
  return %0 : tensor<1x1x2x16xi32>
}

// -----

// Floats have no instruction for several taps.
// CHECK-LABEL: func.func private @negative_floats
// CHECK-NOT: call_intrinsic
// CHECK: vector.fma
func.func private @negative_floats(%x: tensor<1x3x4x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<1x1x2x16xf32>
    attributes {stepwell.kernel = {class = "depthwise"}} {
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x3x4x16xf32>, tensor<3x3x16xf32>) -> tensor<1x1x2x16xf32>
  return %0 : tensor<1x1x2x16xf32>
}
