// RUN: stepwell-opt %s --stepwell-pack-weights=machine=x86-64-v4 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4 bytes-by-depth=true" --split-input-file | FileCheck %s --check-prefix=UNPACKED

// The rows stay floats; the sums of their blocks stand for the number that is 0.
// CHECK-LABEL: func.func @floats
// CHECK-SAME: (%[[X:.+]]: tensor<1x64xf32>
// CHECK: %[[SUMS:.+]] = "stepwell.reduce_sum"({{.+}}) {axes = array<i64: 2>{{.*}}} : (tensor<1x2x32xf32>) -> tensor<1x2xf32>
// CHECK: "stepwell.packed_block_matmul"(%{{.+}}, %[[SUMS]], %{{.+}}, %{{.+}}) {bits = 4 : i64, columns = 96 : i64
// CHECK-SAME: (tensor<1x64xf32>, tensor<1x2xf32>, tensor<3072xui8>, tensor<192xf32>) -> tensor<1x96xf32>
// UNPACKED-LABEL: func.func @floats
// UNPACKED-NOT: stepwell.packed_block_matmul
// UNPACKED: "stepwell.packed_matmul"
func.func @floats(%x: tensor<1x64xf32>) -> tensor<1x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<1x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<1x96xf32>
  return %0 : tensor<1x96xf32>
}

// -----

// Blocks of rows are rounded to bytes. The last block of the weight is longer than the rows.
// CHECK-LABEL: func.func @bytes
// CHECK: "stepwell.pad"({{.+}}) {{.*}} -> tensor<8x64xf32>
// CHECK: "stepwell.reduce_max"
// CHECK: "stepwell.cast"({{.+}}) {{.*}} -> tensor<8x2x32xi8>
// CHECK: "stepwell.packed_block_matmul"
// CHECK-SAME: (tensor<8x64xi8>, tensor<8x2xf32>, tensor<3072xui8>, tensor<192xf32>, tensor<192xui8>, tensor<8x2xf32>) -> tensor<8x96xf32>
func.func @bytes(%x: tensor<8x40xf32>) -> tensor<8x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %z = "stepwell.parameter"() {name = "z", shape = array<i64: 96, 2>, dtype = ui8} : () -> tensor<96x2xui8>
  %0 = "stepwell.block_matmul"(%x, %w, %s, %z) {bits = 4 : i64, rounds_input = true}
    : (tensor<8x40xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>, tensor<96x2xui8>) -> tensor<8x96xf32>
  return %0 : tensor<8x96xf32>
}

// -----

// A weight that comes with every call is unpacked.
// CHECK-LABEL: func.func @negative_computed
// CHECK-NOT: block_matmul
// CHECK: "stepwell.packed_matmul"
func.func @negative_computed(%x: tensor<8x64xf32>, %w: tensor<96x2x16xui8>, %s: tensor<96x2xf32>) -> tensor<8x96xf32> {
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<8x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<8x96xf32>
  return %0 : tensor<8x96xf32>
}

// -----

// However many rows there are, the weight stays packed.
// CHECK-LABEL: func.func @many_rows
// CHECK: "stepwell.packed_block_matmul"
func.func @many_rows(%x: tensor<100x64xf32>) -> tensor<100x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f32} : () -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<100x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<100x96xf32>
  return %0 : tensor<100x96xf32>
}

// -----

// One of three stacked weights: all are packed, in panels that do not reach across matrices, and the row is taken after
// that.
// CHECK-LABEL: func.func @stacked
// CHECK-SAME: (%[[X:.+]]: tensor<1x64xf32>, %[[I:.+]]: tensor<i64>
// CHECK-DAG: %[[W:.+]] = "stepwell.row"(%{{.+}}, %[[I]]) : (tensor<3x3072xui8>, tensor<i64>) -> tensor<3072xui8>
// CHECK-DAG: %[[S:.+]] = "stepwell.row"(%{{.+}}, %[[I]]) : (tensor<3x192xf32>, tensor<i64>) -> tensor<192xf32>
// CHECK: "stepwell.packed_block_matmul"(%{{.+}}, %{{.+}}, %[[W]], %[[S]]) {bits = 4 : i64, columns = 96 : i64
func.func @stacked(%x: tensor<1x64xf32>, %i: tensor<i64>) -> tensor<1x96xf32> {
  %ws = "stepwell.parameter"() {name = "w", shape = array<i64: 3, 96, 2, 16>, dtype = ui8} : () -> tensor<3x96x2x16xui8>
  %ss = "stepwell.parameter"() {name = "s", shape = array<i64: 3, 96, 2>, dtype = f32} : () -> tensor<3x96x2xf32>
  %w = "stepwell.row"(%ws, %i) : (tensor<3x96x2x16xui8>, tensor<i64>) -> tensor<96x2x16xui8>
  %s = "stepwell.row"(%ss, %i) : (tensor<3x96x2xf32>, tensor<i64>) -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<1x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<1x96xf32>
  return %0 : tensor<1x96xf32>
}

// -----

// Weight and scales of different matrices: nothing is packed.
// CHECK-LABEL: func.func @of_two_matrices
// CHECK-NOT: stepwell.packed_block_matmul
// CHECK: return
func.func @of_two_matrices(%x: tensor<1x64xf32>, %i: tensor<i64>, %j: tensor<i64>) -> tensor<1x96xf32> {
  %ws = "stepwell.parameter"() {name = "w", shape = array<i64: 3, 96, 2, 16>, dtype = ui8} : () -> tensor<3x96x2x16xui8>
  %ss = "stepwell.parameter"() {name = "s", shape = array<i64: 3, 96, 2>, dtype = f32} : () -> tensor<3x96x2xf32>
  %w = "stepwell.row"(%ws, %i) : (tensor<3x96x2x16xui8>, tensor<i64>) -> tensor<96x2x16xui8>
  %s = "stepwell.row"(%ss, %j) : (tensor<3x96x2xf32>, tensor<i64>) -> tensor<96x2xf32>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<1x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<1x96xf32>
  return %0 : tensor<1x96xf32>
}

// -----

// Short scales of rows of f32 are multiplied in f32: in f16, weights would be rounded.
// UNPACKED-LABEL: func.func @short_scales
// UNPACKED: %[[S:.+]] = "stepwell.cast"(%{{.+}}) {{.*}}: (tensor<96x2xf16>) -> tensor<96x2xf32>
// UNPACKED: "stepwell.reshape"(%[[S]])
// UNPACKED-NOT: f16
// UNPACKED: return
// CHECK-LABEL: func.func @short_scales
func.func @short_scales(%x: tensor<1x64xf32>) -> tensor<1x96xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 96, 2, 16>, dtype = ui8} : () -> tensor<96x2x16xui8>
  %s = "stepwell.parameter"() {name = "s", shape = array<i64: 96, 2>, dtype = f16} : () -> tensor<96x2xf16>
  %0 = "stepwell.block_matmul"(%x, %w, %s) {bits = 4 : i64}
    : (tensor<1x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf16>) -> tensor<1x96xf32>
  return %0 : tensor<1x96xf32>
}
