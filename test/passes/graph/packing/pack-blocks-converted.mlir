// RUN: stepwell-opt %s --split-input-file --stepwell-pack-weights="machine=sapphirerapids+matrix_rate=1024" | FileCheck %s

// A matrix unit multiplies many rows as bf16, with panels that the kernel converts.
// CHECK-LABEL: func.func @many_rows
// CHECK-SAME: (%[[X:.+]]: tensor<128x64xf32>)
// CHECK-NOT: stepwell.reduce
// CHECK: %[[ROWS:.+]] = "stepwell.cast"(%[[X]]) {{.*}} -> tensor<128x64xbf16>
// CHECK: "stepwell.packed_block_matmul"(%[[ROWS]], %{{.+}}, %{{.+}}) {bits = 4 : i64, columns = 96 : i64
// CHECK-SAME: (tensor<128x64xbf16>, tensor<3072xui8>, tensor<192xf32>) -> tensor<128x96xf32>
func.func @many_rows(%x: tensor<128x64xf32>) -> tensor<128x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64, rounds_input = true}
    : (tensor<128x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<128x96xf32>
  return %0 : tensor<128x96xf32>
}

// -----

// Few rows are rounded to bytes.
// CHECK-LABEL: func.func @negative_few_rows
// CHECK: "stepwell.packed_block_matmul"
// CHECK-SAME: (tensor<8x64xi8>
func.func @negative_few_rows(%x: tensor<8x64xf32>) -> tensor<8x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64, rounds_input = true}
    : (tensor<8x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<8x96xf32>
  return %0 : tensor<8x96xf32>
}

// -----

// Rows that must not be rounded stay floats.
// CHECK-LABEL: func.func @negative_exact_rows
// CHECK: "stepwell.packed_block_matmul"
// CHECK-SAME: (tensor<128x64xf32>
func.func @negative_exact_rows(%x: tensor<128x64xf32>) -> tensor<128x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<128x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<128x96xf32>
  return %0 : tensor<128x96xf32>
}

// -----

// Rows of one of several weights may be few in a call; their numbers become bytes once for all rows.
// CHECK-LABEL: func.func @negative_stacked
// CHECK: "stepwell.packed_block_matmul"
// CHECK-SAME: spread = true
// CHECK-SAME: (tensor<128x64xi8>
func.func @negative_stacked(%x: tensor<128x64xf32>, %i: tensor<i64>) -> tensor<128x96xf32> {
  %ws = "stepwell.parameter"() {name = "w", shape = array<i64: 3, 96, 2, 16>, dtype = ui8} : () -> tensor<3x96x2x16xui8>
  %ss = "stepwell.parameter"() {name = "s", shape = array<i64: 3, 96, 2>, dtype = f32} : () -> tensor<3x96x2xf32>
  %w = "stepwell.row"(%ws, %i) : (tensor<3x96x2x16xui8>, tensor<i64>) -> tensor<96x2x16xui8>
  %s = "stepwell.row"(%ss, %i) : (tensor<3x96x2xf32>, tensor<i64>) -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64, rounds_input = true}
    : (tensor<128x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<128x96xf32>
  return %0 : tensor<128x96xf32>
}
