// RUN: stepwell-opt %s --stepwell-fuse-composites --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --stepwell-fuse-composites=attention=tiles --stepwell-canonicalize --split-input-file | FileCheck %s --check-prefix=GPU

// Attention with a bool mask as torch's exporter writes it: weights that are NaN become 0.
// CHECK-LABEL: func.func @guarded
// CHECK:         "stepwell.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {{.*}}zero_empty = true
// CHECK-NOT:     stepwell.softmax
func.func @guarded(%q: tensor<1x4x32x8xf32>, %k: tensor<1x4x48x8xf32>, %m: tensor<32x48xf32>) -> tensor<1x4x32x8xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<1x4x32x8xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x32x48xf32>
  %1 = "stepwell.add"(%0, %m) : (tensor<1x4x32x48xf32>, tensor<32x48xf32>) -> tensor<1x4x32x48xf32>
  %2 = "stepwell.softmax"(%1) {axis = 3 : i64} : (tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xf32>
  %3 = "stepwell.equal"(%2, %2) : (tensor<1x4x32x48xf32>, tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xi1>
  %4 = "stepwell.not"(%3) : (tensor<1x4x32x48xi1>) -> tensor<1x4x32x48xi1>
  %5 = "stepwell.select"(%4, %zero, %2) : (tensor<1x4x32x48xi1>, tensor<1xf32>, tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xf32>
  %6 = "stepwell.matmul"(%5, %k) : (tensor<1x4x32x48xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x32x8xf32>
  return %6 : tensor<1x4x32x8xf32>
}

// -----

// CHECK-LABEL: func.func @negative_other_number
// CHECK-NOT:     stepwell.attention
func.func @negative_other_number(%q: tensor<1x4x32x8xf32>, %k: tensor<1x4x48x8xf32>) -> tensor<1x4x32x8xf32> {
  %one = "stepwell.constant"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = "stepwell.matmul"(%q, %k) {transpose_rhs = true} : (tensor<1x4x32x8xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x32x48xf32>
  %2 = "stepwell.softmax"(%0) {axis = 3 : i64} : (tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xf32>
  %3 = "stepwell.equal"(%2, %2) : (tensor<1x4x32x48xf32>, tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xi1>
  %4 = "stepwell.not"(%3) : (tensor<1x4x32x48xi1>) -> tensor<1x4x32x48xi1>
  %5 = "stepwell.select"(%4, %one, %2) : (tensor<1x4x32x48xi1>, tensor<1xf32>, tensor<1x4x32x48xf32>) -> tensor<1x4x32x48xf32>
  %6 = "stepwell.matmul"(%5, %k) : (tensor<1x4x32x48xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x32x8xf32>
  return %6 : tensor<1x4x32x8xf32>
}

// -----

// Two query heads share a head of keys and values, which is then not repeated.
// CHECK-LABEL: func.func @shared
// CHECK:       stepwell.attention
// GPU-LABEL: func.func @shared
// GPU-SAME:    (%[[Q:.+]]: tensor<1x4x1x8xf32>, %[[K:.+]]: tensor<1x2x48x8xf32>
// GPU:         "stepwell.attention"(%[[Q]], %{{.*}}, %{{.*}}) {{.*}} : (tensor<1x4x1x8xf32>, tensor<1x2x48x8xf32>, tensor<1x2x48x8xf32>)
func.func @shared(%q: tensor<1x4x1x8xf32>, %k: tensor<1x2x48x8xf32>) -> tensor<1x4x1x8xf32> {
  %0 = "stepwell.reshape"(%k) {shape = array<i64: 1, 2, 1, 48, 8>} : (tensor<1x2x48x8xf32>) -> tensor<1x2x1x48x8xf32>
  %1 = "stepwell.broadcast_to"(%0) {shape = array<i64: 1, 2, 2, 48, 8>} : (tensor<1x2x1x48x8xf32>) -> tensor<1x2x2x48x8xf32>
  %2 = "stepwell.reshape"(%1) {shape = array<i64: 1, 4, 48, 8>} : (tensor<1x2x2x48x8xf32>) -> tensor<1x4x48x8xf32>
  %3 = "stepwell.matmul"(%q, %2) {transpose_rhs = true} : (tensor<1x4x1x8xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x1x48xf32>
  %4 = "stepwell.softmax"(%3) {axis = 3 : i64} : (tensor<1x4x1x48xf32>) -> tensor<1x4x1x48xf32>
  %5 = "stepwell.matmul"(%4, %2) : (tensor<1x4x1x48xf32>, tensor<1x4x48x8xf32>) -> tensor<1x4x1x8xf32>
  return %5 : tensor<1x4x1x8xf32>
}
