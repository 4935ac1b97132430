// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s

// Attention is fused with the ops that define the layout of its operands and result; reshapes cost nothing.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<1x6x96xf32>, %[[M:[^:]+]]: tensor<1x1x1x6xf32>)
// CHECK:         %[[S:.+]] = "stepwell.reshape"(%[[X]])
// CHECK-NEXT:    %[[A:.+]] = call @[[K:[^(]+]](%[[S]], %[[M]])
// CHECK-NEXT:    %[[R:.+]] = "stepwell.reshape"(%[[A]])
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @[[K]](%{{.+}}: tensor<1x6x12x8xf32>, {{.*}}) -> tensor<1x6x4x8xf32>
// CHECK-SAME:    class = "attention"
// CHECK-SAME:    flops = 4608
// CHECK-COUNT-3: stepwell.slice
// CHECK:         stepwell.attention
// CHECK-NEXT:    stepwell.transpose
// CHECK-NEXT:    return
func.func @main(%x: tensor<1x6x96xf32>, %m: tensor<1x1x1x6xf32>) -> tensor<1x6x32xf32> {
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 1, 6, 12, 8>} : (tensor<1x6x96xf32>) -> tensor<1x6x12x8xf32>
  %1 = "stepwell.slice"(%0) {starts = array<i64: 0, 0, 0, 0>, stops = array<i64: 1, 6, 4, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x6x12x8xf32>) -> tensor<1x6x4x8xf32>
  %2 = "stepwell.slice"(%0) {starts = array<i64: 0, 0, 4, 0>, stops = array<i64: 1, 6, 8, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x6x12x8xf32>) -> tensor<1x6x4x8xf32>
  %3 = "stepwell.slice"(%0) {starts = array<i64: 0, 0, 8, 0>, stops = array<i64: 1, 6, 12, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x6x12x8xf32>) -> tensor<1x6x4x8xf32>
  %q = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %k = "stepwell.transpose"(%2) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %v = "stepwell.transpose"(%3) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %a = "stepwell.attention"(%q, %k, %v, %m) {scale = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x1x1x6xf32>) -> tensor<1x4x6x8xf32>
  %t = "stepwell.transpose"(%a) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x6x8xf32>) -> tensor<1x6x4x8xf32>
  %r = "stepwell.reshape"(%t) {shape = array<i64: 1, 6, 32>} : (tensor<1x6x4x8xf32>) -> tensor<1x6x32xf32>
  return %r : tensor<1x6x32xf32>
}

// -----

// A slice with a step, a transpose with other readers, and one of the result that splits rows stay outside.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: call @
// CHECK:       func.func private
func.func @main(%x: tensor<1x4x12x8xf32>, %y: tensor<1x6x4x8xf32>, %v: tensor<1x4x6x8xf32>) -> (tensor<1x4x8x6xf32>, tensor<1x4x6x8xf32>) {
  %q = "stepwell.slice"(%x) {starts = array<i64: 0, 0, 0, 0>, stops = array<i64: 1, 4, 12, 8>, steps = array<i64: 1, 1, 2, 1>} : (tensor<1x4x12x8xf32>) -> tensor<1x4x6x8xf32>
  %k = "stepwell.transpose"(%y) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x4x8xf32>) -> tensor<1x4x6x8xf32>
  %a = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  %t = "stepwell.transpose"(%a) {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x4x8x6xf32>
  return %t, %k : tensor<1x4x8x6xf32>, tensor<1x4x6x8xf32>
}
