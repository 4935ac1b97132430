// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4 in-kernels=true" --split-input-file | FileCheck %s

// The smaller operand of a large product is copied: here, the one that is stored by columns.
// CHECK-LABEL: func.func @left
// CHECK-SAME: (%[[X:.+]]: tensor<1024x256xf32>, %[[Y:.+]]: tensor<1024x1024xf32>)
func.func @left(%x: tensor<1024x256xf32>, %y: tensor<1024x1024xf32>) -> tensor<256x1024xf32> {
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 1, 0>} : (tensor<1024x256xf32>)
  // CHECK: "stepwell.packed_matmul"(%[[T]], %{{.+}})
  %0 = "stepwell.matmul"(%x, %y) {transpose_lhs = true} : (tensor<1024x256xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  return %0 : tensor<256x1024xf32>
}

// -----

// Here the other one, which makes the result the transposed one.
// CHECK-LABEL: func.func @right
func.func @right(%x: tensor<1024x1024xf32>, %y: tensor<1024x256xf32>) -> tensor<1024x256xf32> {
  // CHECK: %[[T:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 1, 0>} : (tensor<1024x256xf32>)
  // CHECK: %[[P:.+]] = "stepwell.packed_matmul"(%[[T]], %{{.+}})
  // CHECK: "stepwell.transpose"(%[[P]]) {permutation = array<i64: 1, 0>} : (tensor<256x1024xf32>)
  %0 = "stepwell.matmul"(%x, %y) {transpose_lhs = true} : (tensor<1024x1024xf32>, tensor<1024x256xf32>) -> tensor<1024x256xf32>
  return %0 : tensor<1024x256xf32>
}

// -----

// A small result is a sum over blocks of terms.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<1024x32xf32>, %y: tensor<1024x16xf32>) -> tensor<32x16xf32> {
  // CHECK: %[[P:.+]] = "stepwell.matmul"(%{{.+}}, %{{.+}}) {transpose_lhs = true} : (tensor<4x256x32xf32>, tensor<4x256x16xf32>)
  // CHECK: "stepwell.reduce_sum"(%[[P]]) {axes = array<i64: 0>, keepdims = false}
  %0 = "stepwell.matmul"(%x, %y) {transpose_lhs = true} : (tensor<1024x32xf32>, tensor<1024x16xf32>) -> tensor<32x16xf32>
  return %0 : tensor<32x16xf32>
}

// -----

// CHECK-LABEL: func.func @negative_few_terms_or_few_rows
// CHECK-NOT: stepwell.transpose"
// CHECK-NOT: stepwell.reduce_sum
func.func @negative_few_terms_or_few_rows(%x: tensor<128x256xf32>, %y: tensor<128x256xf32>, %z: tensor<1021x8xf32>,
    %t: tensor<1021x4096xf32>) -> (tensor<256x256xf32>, tensor<8x4096xf32>) {
  %0 = "stepwell.matmul"(%x, %y) {transpose_lhs = true} : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<256x256xf32>
  %1 = "stepwell.matmul"(%z, %t) {transpose_lhs = true} : (tensor<1021x8xf32>, tensor<1021x4096xf32>) -> tensor<8x4096xf32>
  return %0, %1 : tensor<256x256xf32>, tensor<8x4096xf32>
}
