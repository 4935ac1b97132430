// RUN: stepwell-opt %s --stepwell-pack-weights=machine=x86-64-v4 --split-input-file | FileCheck %s

// A stack of weights is packed as a whole, and each product takes one of them.
// CHECK-LABEL: func.func @main
// CHECK: %[[PANELS:.+]] = "stepwell.transpose"{{.*}} {permutation = array<i64: 0, 1, 3, 2>} {{.*}} -> tensor<4x2x16x32xf32>
// CHECK: %[[STACK:.+]] = "stepwell.reshape"(%[[PANELS]]) {shape = array<i64: 4, 1024>}
// CHECK: %[[ONE:.+]] = "stepwell.row"(%[[STACK]], %arg1) : (tensor<4x1024xf32>, tensor<i64>) -> tensor<1024xf32>
// CHECK: "stepwell.packed_matmul"(%arg0, %[[ONE]]) {columns = 64 : i64, panel = 32 : i64}
func.func @main(%x: tensor<20x16xf32>, %i: tensor<i64>) -> tensor<20x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 64, 16>, dtype = f32} : () -> tensor<4x64x16xf32>
  %0 = "stepwell.row"(%w, %i) : (tensor<4x64x16xf32>, tensor<i64>) -> tensor<64x16xf32>
  %1 = "stepwell.matmul"(%x, %0) {transpose_rhs = true} : (tensor<20x16xf32>, tensor<64x16xf32>) -> tensor<20x64xf32>
  return %1 : tensor<20x64xf32>
}

// -----

// Groups of columns of each matrix follow each other.
// CHECK-LABEL: func.func @main
// CHECK: "stepwell.concat"{{.*}} {axis = 1 : i64} {{.*}} -> tensor<4x1120xf32>
// CHECK: "stepwell.row"{{.*}} -> tensor<1120xf32>
// CHECK: "stepwell.packed_matmul"{{.*}} {columns = 70 : i64
func.func @main(%x: tensor<20x16xf32>, %i: tensor<i64>) -> tensor<20x70xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 16, 70>, dtype = f32} : () -> tensor<4x16x70xf32>
  %0 = "stepwell.row"(%w, %i) : (tensor<4x16x70xf32>, tensor<i64>) -> tensor<16x70xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<20x16xf32>, tensor<16x70xf32>) -> tensor<20x70xf32>
  return %1 : tensor<20x70xf32>
}

// -----

// CHECK-LABEL: func.func @negative_input
// CHECK-NOT: stepwell.concat
// CHECK: "stepwell.row"(%arg1
func.func @negative_input(%x: tensor<20x16xf32>, %w: tensor<4x16x70xf32>, %i: tensor<i64>) -> tensor<20x70xf32> {
  %0 = "stepwell.row"(%w, %i) : (tensor<4x16x70xf32>, tensor<i64>) -> tensor<16x70xf32>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<20x16xf32>, tensor<16x70xf32>) -> tensor<20x70xf32>
  return %1 : tensor<20x70xf32>
}

// -----

// CHECK-LABEL: func.func @negative_double
// CHECK-NOT: stepwell.packed_matmul
func.func @negative_double(%x: tensor<20x16xf64>, %i: tensor<i64>) -> tensor<20x70xf64> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 16, 70>, dtype = f64} : () -> tensor<4x16x70xf64>
  %0 = "stepwell.row"(%w, %i) : (tensor<4x16x70xf64>, tensor<i64>) -> tensor<16x70xf64>
  %1 = "stepwell.matmul"(%x, %0) : (tensor<20x16xf64>, tensor<16x70xf64>) -> tensor<20x70xf64>
  return %1 : tensor<20x70xf64>
}

// -----

// A stack of short floats stays short.
// CHECK-LABEL: func.func @short
// CHECK: "stepwell.row"{{.*}} : (tensor<4x1024xbf16>, tensor<i64>) -> tensor<1024xbf16>
// CHECK: "stepwell.packed_matmul"{{.*}} {columns = 64 : i64, keeps_sums = true, panel = {{.*}} -> tensor<2x64xf32>
func.func @short(%x: tensor<2x16xf32>, %i: tensor<i64>) -> tensor<2x64xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 64, 16>, dtype = bf16} : () -> tensor<4x64x16xbf16>
  %0 = "stepwell.row"(%w, %i) : (tensor<4x64x16xbf16>, tensor<i64>) -> tensor<64x16xbf16>
  %1 = "stepwell.cast"(%0) {dtype = f32} : (tensor<64x16xbf16>) -> tensor<64x16xf32>
  %2 = "stepwell.matmul"(%x, %1) {transpose_rhs = true} : (tensor<2x16xf32>, tensor<64x16xf32>) -> tensor<2x64xf32>
  return %2 : tensor<2x64xf32>
}
