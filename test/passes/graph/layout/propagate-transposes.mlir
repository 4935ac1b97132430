// RUN: stepwell-opt %s --stepwell-propagate-transposes | FileCheck %s

// CHECK-LABEL: func.func @cancel
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x6x8xf32>)
func.func @cancel(%x: tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32> {
  // CHECK-NEXT: %[[RELU:.+]] = "stepwell.relu"(%[[X]])
  // CHECK-NEXT: return %[[RELU]]
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.relu"(%0) : (tensor<1x8x4x6xf32>) -> tensor<1x8x4x6xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
  return %2 : tensor<1x4x6x8xf32>
}

// CHECK-LABEL: func.func @per_channel_operand
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x6x8xf32>, %[[S:.+]]: tensor<8x1x1xf32>)
func.func @per_channel_operand(%x: tensor<1x4x6x8xf32>, %s: tensor<8x1x1xf32>) -> tensor<1x8x4x6xf32> {
  // CHECK: %[[R:.+]] = "stepwell.reshape"(%{{.+}}) {shape = array<i64: 1, 1, 1, 8>}
  // CHECK: %[[MUL:.+]] = "stepwell.mul"(%[[X]], %[[R]])
  // CHECK: "stepwell.transpose"(%[[MUL]])
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.mul"(%0, %s) : (tensor<1x8x4x6xf32>, tensor<8x1x1xf32>) -> tensor<1x8x4x6xf32>
  return %1 : tensor<1x8x4x6xf32>
}

// CHECK-LABEL: func.func @negative_operand_as_large
func.func @negative_operand_as_large(%x: tensor<1x4x6x8xf32>, %y: tensor<1x8x4x6xf32>) -> tensor<1x8x4x6xf32> {
  // CHECK-NEXT: %[[T:.+]] = "stepwell.transpose"
  // CHECK-NEXT: "stepwell.add"(%[[T]]
  // CHECK-NEXT: return
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.add"(%0, %y) : (tensor<1x8x4x6xf32>, tensor<1x8x4x6xf32>) -> tensor<1x8x4x6xf32>
  return %1 : tensor<1x8x4x6xf32>
}

// CHECK-LABEL: func.func @concat
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x6x8xf32>, %[[Y:.+]]: tensor<1x4x6x2xf32>)
func.func @concat(%x: tensor<1x4x6x8xf32>, %y: tensor<1x4x6x2xf32>) -> tensor<1x10x4x6xf32> {
  // CHECK-NEXT: "stepwell.concat"(%[[X]], %[[Y]]) {axis = 3 : i64{{.*}}}
  // CHECK-NEXT: stepwell.transpose
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.transpose"(%y) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x2xf32>) -> tensor<1x2x4x6xf32>
  %2 = "stepwell.concat"(%0, %1) {axis = 1 : i64} : (tensor<1x8x4x6xf32>, tensor<1x2x4x6xf32>) -> tensor<1x10x4x6xf32>
  return %2 : tensor<1x10x4x6xf32>
}

// CHECK-LABEL: func.func @mean_over_image
func.func @mean_over_image(%x: tensor<1x4x6x8xf32>) -> tensor<1x8xf32> {
  // CHECK-NEXT: "stepwell.reduce_mean"(%{{.+}}) {axes = array<i64: 1, 2>
  // CHECK-NEXT: return
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.reduce_mean"(%0) {axes = array<i64: 2, 3>, keepdims = false} : (tensor<1x8x4x6xf32>) -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}

// A channel shuffle of a channels-last image only moves channels.

// CHECK-LABEL: func.func @channel_shuffle
// CHECK-SAME: (%[[X:.+]]: tensor<1x4x6x8xf32>)
func.func @channel_shuffle(%x: tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32> {
  // CHECK-NEXT: %[[SPLIT:.+]] = "stepwell.reshape"(%[[X]]) {shape = array<i64: 1, 4, 6, 2, 4>}
  // CHECK-NEXT: %[[SHUFFLED:.+]] = "stepwell.transpose"(%[[SPLIT]]) {permutation = array<i64: 0, 1, 2, 4, 3>}
  // CHECK-NEXT: "stepwell.reshape"(%[[SHUFFLED]]) {shape = array<i64: 1, 4, 6, 8>}
  // CHECK-NEXT: return
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 1, 2, 4, 4, 6>} : (tensor<1x8x4x6xf32>) -> tensor<1x2x4x4x6xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x4x4x6xf32>) -> tensor<1x4x2x4x6xf32>
  %3 = "stepwell.reshape"(%2) {shape = array<i64: 1, 8, 4, 6>} : (tensor<1x4x2x4x6xf32>) -> tensor<1x8x4x6xf32>
  %4 = "stepwell.transpose"(%3) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
  return %4 : tensor<1x4x6x8xf32>
}

// -----

// A resampling along one dimension stays along that dimension.
// CHECK-LABEL: func.func @resample
// CHECK: %[[R:.*]] = "stepwell.resample"(%arg0, %arg1, %arg2) {axis = 2 : i64{{.*}}tensor<1x4x6x8xf32>
// CHECK: "stepwell.transpose"(%[[R]]) {permutation = array<i64: 0, 3, 1, 2>}
func.func @resample(%x: tensor<1x4x6x8xf32>, %i: tensor<2x9xi64>, %w: tensor<2x9xf32>) -> tensor<1x8x4x9xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.resample"(%0, %i, %w) {axis = 3 : i64}
    : (tensor<1x8x4x6xf32>, tensor<2x9xi64>, tensor<2x9xf32>) -> tensor<1x8x4x9xf32>
  return %1 : tensor<1x8x4x9xf32>
}

// -----

// CHECK-LABEL: func.func @gather
// CHECK: %[[G:.*]] = "stepwell.gather"(%arg0, %arg1) {axis = 2 : i64
// CHECK: "stepwell.relu"(%[[G]])
// CHECK-NOT: stepwell.transpose
func.func @gather(%x: tensor<1x4x6x8xf32>, %i: tensor<9xi64>) -> tensor<1x4x9x8xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.gather"(%0, %i) {axis = 3 : i64} : (tensor<1x8x4x6xf32>, tensor<9xi64>) -> tensor<1x8x4x9xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x9xf32>) -> tensor<1x4x9x8xf32>
  %3 = "stepwell.relu"(%2) : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  return %3 : tensor<1x4x9x8xf32>
}

// -----

// Gathers along both dimensions of an image, one after the other, with a select between them.
// CHECK-LABEL: func.func @gathers
// CHECK: %[[ROWS:.*]] = "stepwell.gather"(%arg0, %arg1) {axis = 1 : i64
// CHECK: %[[CHOSEN:.*]] = "stepwell.select"(%{{.*}}, %[[ROWS]]
// CHECK: %[[G:.*]] = "stepwell.gather"(%[[CHOSEN]], %arg1) {axis = 2 : i64
// CHECK: "stepwell.relu"(%[[G]])
func.func @gathers(%x: tensor<1x4x6x8xf32>, %i: tensor<9xi64>, %is: tensor<9x1xi1>, %no: tensor<f32>)
    -> tensor<1x9x9x8xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.gather"(%0, %i) {axis = 2 : i64} : (tensor<1x8x4x6xf32>, tensor<9xi64>) -> tensor<1x8x9x6xf32>
  %2 = "stepwell.select"(%is, %1, %no)
    : (tensor<9x1xi1>, tensor<1x8x9x6xf32>, tensor<f32>) -> tensor<1x8x9x6xf32>
  %3 = "stepwell.gather"(%2, %i) {axis = 3 : i64} : (tensor<1x8x9x6xf32>, tensor<9xi64>) -> tensor<1x8x9x9xf32>
  %4 = "stepwell.transpose"(%3) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x9x9xf32>) -> tensor<1x9x9x8xf32>
  %5 = "stepwell.relu"(%4) : (tensor<1x9x9x8xf32>) -> tensor<1x9x9x8xf32>
  return %5 : tensor<1x9x9x8xf32>
}

// -----

// A gather of many elements would leave more elements to transpose.
// CHECK-LABEL: func.func @negative_gather
// CHECK: %[[T:.*]] = "stepwell.transpose"(%arg0)
// CHECK: "stepwell.gather"(%[[T]], %arg1) {axis = 3 : i64
func.func @negative_gather(%x: tensor<1x4x6x8xf32>, %i: tensor<9xi64>) -> tensor<1x8x4x9xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
  %1 = "stepwell.gather"(%0, %i) {axis = 3 : i64} : (tensor<1x8x4x6xf32>, tensor<9xi64>) -> tensor<1x8x4x9xf32>
  return %1 : tensor<1x8x4x9xf32>
}

// -----

// Another op already reads the transpose of %x, and one reads that of the sum, which is computed in that order.
// CHECK-LABEL: func.func @transposed_for_another_reader
// CHECK:         %[[X:.+]] = "stepwell.transpose"(%arg0)
// CHECK:         %[[SHARES:.+]] = "stepwell.softmax"(%[[X]])
// CHECK:         %[[SUM:.+]] = "stepwell.add"(%[[X]], %[[SHARES]])
// CHECK-DAG:     "stepwell.transpose"(%[[SUM]])
// CHECK-DAG:     "stepwell.softmax"(%[[SUM]])
func.func @transposed_for_another_reader(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6x4xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %3 = "stepwell.add"(%x, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = "stepwell.transpose"(%3) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %5 = "stepwell.softmax"(%4) {axis = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %3, %5 : tensor<4x6xf32>, tensor<6x4xf32>
}

// -----

// Without such a reader, nothing would be gained.
// CHECK-LABEL: func.func @negative_no_reader_undoes
// CHECK:         "stepwell.add"(%arg0, %{{.+}}) {{.*}} -> tensor<4x6xf32>
func.func @negative_no_reader_undoes(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %3 = "stepwell.add"(%x, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// -----

// Both transposes have other readers: computing the sum in either order needs both.
// CHECK-LABEL: func.func @negative_both_transposed
// CHECK:         "stepwell.add"(%arg0, %{{.+}}) {{.*}} -> tensor<4x6xf32>
func.func @negative_both_transposed(%x: tensor<4x6xf32>, %y: tensor<6x4xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "stepwell.transpose"(%y) {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %2 = "stepwell.add"(%x, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2, %1, %0 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>
}

// -----

// The only transpose stands for the other operand: nothing is saved, and the sum would turn back and forth.
// CHECK-LABEL: func.func @negative_sum_with_own_transpose
// CHECK:         "stepwell.add"(%arg0, %{{.+}})
func.func @negative_sum_with_own_transpose(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "stepwell.add"(%x, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "stepwell.softmax"(%2) {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}
