// RUN: stepwell-opt %s --split-input-file --stepwell-pack-weights="machine=sapphirerapids+matrix_rate=1024 in-kernels=true" | FileCheck %s

// A matrix unit reads pairs of bf16 along the reduction, into which every run arranges the right-hand side.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: (%[[X:.+]]: tensor<16x8xbf16>, %[[Y:.+]]: tensor<64x8xbf16>)
func.func @transposed(%x: tensor<16x8xbf16>, %y: tensor<64x8xbf16>) -> tensor<16x64xbf16> {
  // CHECK: %[[S:.+]] = "stepwell.reshape"(%[[Y]]) {shape = array<i64: 1, 2, 32, 4, 2>}
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%[[S]]) {permutation = array<i64: 0, 1, 3, 2, 4>}
  // CHECK: %[[P:.+]] = "stepwell.reshape"(%[[T]]) {shape = array<i64: 512>}
  // CHECK: "stepwell.packed_matmul"(%[[X]], %[[P]]) {batch = 1 : i64, columns = 64 : i64, grain = 2 : i64, panel = 32 : i64}
  %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<16x8xbf16>, tensor<64x8xbf16>) -> tensor<16x64xbf16>
  return %0 : tensor<16x64xbf16>
}

// -----

// CHECK-LABEL: func.func @batches
// CHECK: {shape = array<i64: 3, 4, 2, 2, 32>}
// CHECK: {permutation = array<i64: 0, 3, 1, 4, 2>}
// CHECK: "stepwell.packed_matmul"{{.*}} {batch = 3 : i64, columns = 64 : i64, grain = 2 : i64, panel = 32 : i64}
func.func @batches(%x: tensor<3x16x8xbf16>, %y: tensor<3x8x64xbf16>) -> tensor<3x16x64xbf16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<3x16x8xbf16>, tensor<3x8x64xbf16>) -> tensor<3x16x64xbf16>
  return %0 : tensor<3x16x64xbf16>
}

// -----

// An odd number of terms has no pairs.
// CHECK-LABEL: func.func @negative_odd
// CHECK-NOT: grain
func.func @negative_odd(%x: tensor<16x7xbf16>, %y: tensor<7x64xbf16>) -> tensor<16x64xbf16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<16x7xbf16>, tensor<7x64xbf16>) -> tensor<16x64xbf16>
  return %0 : tensor<16x64xbf16>
}

// -----

// Fewer rows than the unit is used for.
// CHECK-LABEL: func.func @negative_few_rows
// CHECK-NOT: grain
func.func @negative_few_rows(%x: tensor<5x8xbf16>, %y: tensor<8x64xbf16>) -> tensor<5x64xbf16> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<5x8xbf16>, tensor<8x64xbf16>) -> tensor<5x64xbf16>
  return %0 : tensor<5x64xbf16>
}
