// RUN: stepwell-opt %s --split-input-file --stepwell-sink-movement | FileCheck %s

// Pixels that are interleaved into a larger image are moved once, late, when rows are short: ops on pixels come first.
// An operand for one piece of a row is repeated for every piece of the row.
// CHECK-LABEL: func.func @woven
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<5x8xf32>
// CHECK:         %[[ROWS:.+]] = "stepwell.packed_matmul"(%[[X]], %{{.+}}) {{.*}}columns = 12 : i64
// CHECK:         %[[BIAS:.+]] = "stepwell.tile"(%{{.+}}) {repeats = array<i64: 3>}
// CHECK:         %[[SUM:.+]] = "stepwell.add"(%[[ROWS]], %[[BIAS]]) : (tensor<5x12xf32>, tensor<12xf32>)
// CHECK:         %[[PIECES:.+]] = "stepwell.reshape"(%[[SUM]]) {shape = array<i64: 5, 3, 4>}
// CHECK:         %[[SHORT:.+]] = "stepwell.packed_matmul"(%[[PIECES]], %{{.+}}) {{.*}}columns = 2 : i64
// CHECK:         %[[DONE:.+]] = "stepwell.relu"(%[[SHORT]])
// CHECK:         %[[WOVEN:.+]] = "stepwell.transpose"(%[[DONE]]) {permutation = array<i64: 1, 0, 2>}
// CHECK:         return %[[WOVEN]]
func.func @woven(%x: tensor<5x8xf32>, %w: tensor<96xf32>, %v: tensor<8xf32>) -> tensor<3x5x2xf32> {
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 12 : i64, panel = 16 : i64} : (tensor<5x8xf32>, tensor<96xf32>) -> tensor<5x12xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 5, 3, 4>} : (tensor<5x12xf32>) -> tensor<5x3x4xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0, 2>} : (tensor<5x3x4xf32>) -> tensor<3x5x4xf32>
  %3 = "stepwell.add"(%2, %b) : (tensor<3x5x4xf32>, tensor<4xf32>) -> tensor<3x5x4xf32>
  %4 = "stepwell.packed_matmul"(%3, %v) {columns = 2 : i64, panel = 16 : i64} : (tensor<3x5x4xf32>, tensor<8xf32>) -> tensor<3x5x2xf32>
  %5 = "stepwell.relu"(%4) : (tensor<3x5x2xf32>) -> tensor<3x5x2xf32>
  return %5 : tensor<3x5x2xf32>
}

// -----

// Two transposes on either side of a reshape are merged into one of the common pieces.
// CHECK-LABEL: func.func @twice
// CHECK:         %[[CUT:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 2, 3, 2, 2>}
// CHECK:         %[[TURNED:.+]] = "stepwell.transpose"(%[[CUT]]) {permutation = array<i64: 3, 1, 0, 2>}
// CHECK:         "stepwell.reshape"(%[[TURNED]]) {shape = array<i64: 2, 6, 2>}
func.func @twice(%x: tensor<2x3x4xf32>) -> tensor<2x6x2xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 6, 2, 2>} : (tensor<3x2x4xf32>) -> tensor<6x2x2xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 2, 0, 1>} : (tensor<6x2x2xf32>) -> tensor<2x6x2xf32>
  return %2 : tensor<2x6x2xf32>
}

// -----

// Padding of dimensions that the reshape does not touch comes before it.
// CHECK-LABEL: func.func @padded
// CHECK:         %[[PADDED:.+]] = "stepwell.pad"(%{{.+}}) {high = array<i64: 1, 0, 0>, low = array<i64: 2, 0, 0>
// CHECK:         "stepwell.reshape"(%[[PADDED]]) {shape = array<i64: 7, 6>}
func.func @padded(%x: tensor<4x2x3xf32>) -> tensor<7x6xf32> {
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 4, 6>} : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %1 = "stepwell.pad"(%0) {low = array<i64: 2, 0>, high = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<7x6xf32>
  return %1 : tensor<7x6xf32>
}

// -----

// CHECK-LABEL: func.func @negative_padded
// CHECK:         %[[FLAT:.+]] = "stepwell.reshape"
// CHECK:         "stepwell.pad"(%[[FLAT]])
func.func @negative_padded(%x: tensor<4x2x3xf32>) -> tensor<4x7xf32> {
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 4, 6>} : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %1 = "stepwell.pad"(%0) {low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x6xf32>) -> tensor<4x7xf32>
  return %1 : tensor<4x7xf32>
}

// -----

// No kernel makes an input, so no kernel could absorb the op; rows that would become longer are moved as they are.
// CHECK-LABEL: func.func @negative
// CHECK:         %[[MOVED:.+]] = "stepwell.transpose"
// CHECK:         "stepwell.relu"(%[[MOVED]])
// CHECK:         %[[TURNED:.+]] = "stepwell.transpose"
// CHECK:         "stepwell.packed_matmul"(%[[TURNED]]
func.func @negative(%x: tensor<5x3x4xf32>, %y: tensor<5x3x4xf32>, %w: tensor<32xf32>) -> (tensor<3x5x4xf32>, tensor<3x5x8xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<5x3x4xf32>) -> tensor<3x5x4xf32>
  %1 = "stepwell.relu"(%0) : (tensor<3x5x4xf32>) -> tensor<3x5x4xf32>
  %2 = "stepwell.transpose"(%y) {permutation = array<i64: 1, 0, 2>} : (tensor<5x3x4xf32>) -> tensor<3x5x4xf32>
  %3 = "stepwell.packed_matmul"(%2, %w) {columns = 8 : i64, panel = 16 : i64} : (tensor<3x5x4xf32>, tensor<32xf32>) -> tensor<3x5x8xf32>
  return %1, %3 : tensor<3x5x4xf32>, tensor<3x5x8xf32>
}

// -----

// A Winograd convolution adds what was reshaped like its result, because other ops read that as well.
// CHECK-LABEL: func.func @residual
// CHECK:         %[[SUM:.+]] = "stepwell.add"(%arg0, %arg0)
// CHECK:         %[[CONV:.+]] = "stepwell.winograd_conv"
// CHECK:         %[[SAME:.+]] = "stepwell.reshape"(%[[SUM]]) {{.*}} -> tensor<1x6x2x8xf32>
// CHECK:         %[[ADDED:.+]] = "stepwell.add"(%[[SAME]], %[[CONV]]) {{.*}} -> tensor<1x6x2x8xf32>
// CHECK:         "stepwell.reshape"(%[[ADDED]])
func.func @residual(%x: tensor<1x12x8xf32>, %w: tensor<384xf32>) -> (tensor<1x12x8xf32>, tensor<1x12x8xf32>) {
  %s = "stepwell.add"(%x, %x) : (tensor<1x12x8xf32>, tensor<1x12x8xf32>) -> tensor<1x12x8xf32>
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 6, 2, 8>} : (tensor<1x12x8xf32>) -> tensor<1x6x2x8xf32>
  %1 = "stepwell.winograd_conv"(%0, %w) {columns = 8 : i64, panel = 8 : i64, kernel = array<i64: 3, 1>, tile = 4 : i64, pads = array<i64: 1, 0, 1, 0>}
    : (tensor<1x6x2x8xf32>, tensor<384xf32>) -> tensor<1x6x2x8xf32>
  %2 = "stepwell.reshape"(%1) {shape = array<i64: 1, 12, 8>} : (tensor<1x6x2x8xf32>) -> tensor<1x12x8xf32>
  %3 = "stepwell.add"(%s, %2) : (tensor<1x12x8xf32>, tensor<1x12x8xf32>) -> tensor<1x12x8xf32>
  return %s, %3 : tensor<1x12x8xf32>, tensor<1x12x8xf32>
}

// -----

// The other operand's kernel can add as well: nothing moves.
// CHECK-LABEL: func.func @negative_residual
// CHECK:         %[[BACK:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 12, 8>}
// CHECK:         "stepwell.add"(%{{.+}}, %[[BACK]]) {{.*}} -> tensor<1x12x8xf32>
func.func @negative_residual(%x: tensor<1x12x8xf32>, %w: tensor<384xf32>) -> tensor<1x12x8xf32> {
  %s = "stepwell.add"(%x, %x) : (tensor<1x12x8xf32>, tensor<1x12x8xf32>) -> tensor<1x12x8xf32>
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 6, 2, 8>} : (tensor<1x12x8xf32>) -> tensor<1x6x2x8xf32>
  %1 = "stepwell.winograd_conv"(%0, %w) {columns = 8 : i64, panel = 8 : i64, kernel = array<i64: 3, 1>, tile = 4 : i64, pads = array<i64: 1, 0, 1, 0>}
    : (tensor<1x6x2x8xf32>, tensor<384xf32>) -> tensor<1x6x2x8xf32>
  %2 = "stepwell.reshape"(%1) {shape = array<i64: 1, 12, 8>} : (tensor<1x6x2x8xf32>) -> tensor<1x12x8xf32>
  %3 = "stepwell.add"(%s, %2) : (tensor<1x12x8xf32>, tensor<1x12x8xf32>) -> tensor<1x12x8xf32>
  return %3 : tensor<1x12x8xf32>
}

// -----

// Of two kernels whose results are moved, the nearer one adds; the other one does not take the sum back.
// CHECK-LABEL: func.func @near
// CHECK:         %[[ROWS:.+]] = "stepwell.packed_matmul"(%arg0
// CHECK:         %[[TURNED:.+]] = "stepwell.transpose"
// CHECK:         %[[SAME:.+]] = "stepwell.reshape"(%[[TURNED]]) {{.*}} -> tensor<6x16xf32>
// CHECK:         %[[SUM:.+]] = "stepwell.add"(%[[ROWS]], %[[SAME]])
// CHECK:         "stepwell.reshape"(%[[SUM]]) {shape = array<i64: 8, 12>}
func.func @near(%x: tensor<6x8xf32>, %y: tensor<12x8xf32>, %w: tensor<128xf32>, %v: tensor<64xf32>) -> tensor<8x12xf32> {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 16 : i64, panel = 8 : i64} : (tensor<6x8xf32>, tensor<128xf32>) -> tensor<6x16xf32>
  %1 = "stepwell.packed_matmul"(%y, %v) {columns = 8 : i64, panel = 8 : i64} : (tensor<12x8xf32>, tensor<64xf32>) -> tensor<12x8xf32>
  %3 = "stepwell.reshape"(%0) {shape = array<i64: 8, 12>} : (tensor<6x16xf32>) -> tensor<8x12xf32>
  %4 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<12x8xf32>) -> tensor<8x12xf32>
  %5 = "stepwell.add"(%3, %4) : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  return %5 : tensor<8x12xf32>
}

// -----

// Both are moved twice or turned: the sum stays where it is.
// CHECK-LABEL: func.func @negative_far
// CHECK:         %[[CUT:.+]] = "stepwell.reshape"
// CHECK:         %[[TURNED:.+]] = "stepwell.transpose"(%{{.+}}) {permutation = array<i64: 1, 0>} : (tensor<12x8xf32>)
// CHECK:         %[[SUM:.+]] = "stepwell.add"(%[[CUT]], %[[TURNED]])
// CHECK:         return %[[SUM]]
func.func @negative_far(%x: tensor<6x8xf32>, %y: tensor<12x8xf32>, %w: tensor<128xf32>, %v: tensor<64xf32>) -> tensor<8x12xf32> {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 16 : i64, panel = 8 : i64} : (tensor<6x8xf32>, tensor<128xf32>) -> tensor<6x16xf32>
  %1 = "stepwell.packed_matmul"(%y, %v) {columns = 8 : i64, panel = 8 : i64} : (tensor<12x8xf32>, tensor<64xf32>) -> tensor<12x8xf32>
  %2 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<6x16xf32>) -> tensor<16x6xf32>
  %3 = "stepwell.reshape"(%2) {shape = array<i64: 8, 12>} : (tensor<16x6xf32>) -> tensor<8x12xf32>
  %4 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<12x8xf32>) -> tensor<8x12xf32>
  %5 = "stepwell.add"(%3, %4) : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  return %5 : tensor<8x12xf32>
}

// -----

// Rows are reversed whole, once the transpose has moved the reversed dimensions away from the end.
// CHECK-LABEL: func.func @reversed_rows
// CHECK:         %[[T:.+]] = "stepwell.transpose"(%arg0) {permutation = array<i64: 1, 2, 3, 0>}
// CHECK:         "stepwell.reverse"(%[[T]]) {axes = array<i64: 1, 2>} : (tensor<4x3x5x8xf32>)
func.func @reversed_rows(%x: tensor<8x4x3x5xf32>) -> tensor<4x3x5x8xf32> {
  %0 = "stepwell.reverse"(%x) {axes = array<i64: 2, 3>} : (tensor<8x4x3x5xf32>) -> tensor<8x4x3x5xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 2, 3, 0>} : (tensor<8x4x3x5xf32>) -> tensor<4x3x5x8xf32>
  return %1 : tensor<4x3x5x8xf32>
}

// -----

// Rows are whole before the transpose, or reversed behind it too, or the reversed tensor has another reader.
// CHECK-LABEL: func.func @negative_reversed_rows
// CHECK-COUNT-3: "stepwell.reverse"(%arg0)
func.func @negative_reversed_rows(%x: tensor<8x4x3xf32>) -> (tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<8x4x3xf32>) {
  %0 = "stepwell.reverse"(%x) {axes = array<i64: 0, 1>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 2, 1, 0>} : (tensor<8x4x3xf32>) -> tensor<3x4x8xf32>
  %2 = "stepwell.reverse"(%x) {axes = array<i64: 0, 2>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %3 = "stepwell.transpose"(%2) {permutation = array<i64: 2, 1, 0>} : (tensor<8x4x3xf32>) -> tensor<3x4x8xf32>
  %4 = "stepwell.reverse"(%x) {axes = array<i64: 2>} : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
  %5 = "stepwell.transpose"(%4) {permutation = array<i64: 2, 1, 0>} : (tensor<8x4x3xf32>) -> tensor<3x4x8xf32>
  return %1, %3, %5, %4 : tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<8x4x3xf32>
}
