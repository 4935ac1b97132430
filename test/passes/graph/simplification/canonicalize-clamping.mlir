// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @relu6
func.func @relu6(%x: tensor<4xf32>) -> tensor<4xf32> {
  %six = "stepwell.constant"() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: "stepwell.clip"(%{{.+}}) {maximum = 6.000000e+00 : f64, minimum = 0.000000e+00 : f64}
  // CHECK-NEXT: return
  %1 = "stepwell.minimum"(%0, %six) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Numbers lose their fractions in between.
// CHECK-LABEL: func.func @negative_narrowing_cast
func.func @negative_narrowing_cast(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-COUNT-2: stepwell.cast
  %0 = "stepwell.cast"(%x) {dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %1 = "stepwell.cast"(%0) {dtype = f32} : (tensor<4xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @bounds
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @bounds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "stepwell.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NEXT: "stepwell.relu"(%[[X]])
  %0 = "stepwell.maximum"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: "stepwell.clip"(%[[X]]) {minimum = 1.000000e+00 : f64}
  %1 = "stepwell.maximum"(%x, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// The minimum with NaN is NaN, but NaN is no bound of an interval.
// CHECK-LABEL: func.func @negative_nan
func.func @negative_nan(%x: tensor<4xf32>) -> tensor<4xf32> {
  %nan = "stepwell.constant"() {value = dense<0x7FC00000> : tensor<f32>} : () -> tensor<f32>
  // CHECK: stepwell.minimum
  %0 = "stepwell.minimum"(%x, %nan) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The bounds of a clip are floats, which lack the digits of large integers.
// CHECK-LABEL: func.func @negative_integers
func.func @negative_integers(%x: tensor<4xi64>) -> tensor<4xi64> {
  %c = "stepwell.constant"() {value = dense<9007199254740993> : tensor<i64>} : () -> tensor<i64>
  // CHECK: stepwell.minimum
  %0 = "stepwell.minimum"(%x, %c) : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// The outer interval clamps the bounds of the inner one: all numbers become 2 here.
// CHECK-LABEL: func.func @disjoint_clips
func.func @disjoint_clips(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: "stepwell.clip"(%{{.+}}) {maximum = 2.000000e+00 : f64, minimum = 2.000000e+00 : f64}
  // CHECK-NEXT: return
  %0 = "stepwell.clip"(%x) {minimum = 0.0 : f64, maximum = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.clip"(%0) {minimum = 2.0 : f64, maximum = 3.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @relu_of_clip
func.func @relu_of_clip(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: "stepwell.clip"(%{{.+}}) {maximum = 1.000000e+00 : f64, minimum = 0.000000e+00 : f64}
  // CHECK-NEXT: return
  %0 = "stepwell.clip"(%x) {minimum = -1.0 : f64, maximum = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @relu_of_negative_numbers
func.func @relu_of_negative_numbers(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: "stepwell.clip"(%{{.+}}) {maximum = 0.000000e+00 : f64, minimum = 0.000000e+00 : f64}
  // CHECK-NEXT: return
  %0 = "stepwell.clip"(%x) {minimum = -3.0 : f64, maximum = -1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_relu_of_neg
func.func @negative_relu_of_neg(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: stepwell.neg
  // CHECK-NEXT: stepwell.relu
  %0 = "stepwell.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Another reader of the first clip does not matter: each clip is as cheap as the other.
// CHECK-LABEL: func.func @clip_read_twice
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @clip_read_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.+]] = "stepwell.clip"(%[[X]])
  // CHECK-NEXT: %[[B:.+]] = "stepwell.clip"(%[[X]])
  // CHECK-NEXT: return %[[A]], %[[B]]
  %0 = "stepwell.clip"(%x) {minimum = -1.0 : f64, maximum = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.clip"(%0) {minimum = 0.0 : f64, maximum = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Both of bf16 and f16 have numbers that f32 has too.
// CHECK-LABEL: func.func @widening_cast
// CHECK-SAME: (%[[X:.+]]: tensor<4xbf16>, %[[Y:.+]]: tensor<4xi16>)
func.func @widening_cast(%x: tensor<4xbf16>, %y: tensor<4xi16>) -> (tensor<4xf16>, tensor<4xi16>) {
  %0 = "stepwell.cast"(%x) {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK-NEXT: %[[R:.+]] = "stepwell.cast"(%[[X]]) {dtype = f16}
  %1 = "stepwell.cast"(%0) {dtype = f16} : (tensor<4xf32>) -> tensor<4xf16>
  %2 = "stepwell.cast"(%y) {dtype = f32} : (tensor<4xi16>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[R]], %[[Y]]
  %3 = "stepwell.cast"(%2) {dtype = i16} : (tensor<4xf32>) -> tensor<4xi16>
  return %1, %3 : tensor<4xf16>, tensor<4xi16>
}

// Integers of 64 bits are rounded to the 53 digits of f64.
// CHECK-LABEL: func.func @negative_rounding_cast
func.func @negative_rounding_cast(%x: tensor<4xi64>) -> tensor<4xi64> {
  // CHECK-COUNT-2: stepwell.cast
  %0 = "stepwell.cast"(%x) {dtype = f64} : (tensor<4xi64>) -> tensor<4xf64>
  %1 = "stepwell.cast"(%0) {dtype = i64} : (tensor<4xf64>) -> tensor<4xi64>
  return %1 : tensor<4xi64>
}

// CHECK-LABEL: func.func @select
// CHECK-SAME: (%{{.+}}, %[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<1xf32>)
func.func @select(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %false = "stepwell.constant"() {value = dense<false> : tensor<4xi1>} : () -> tensor<4xi1>
  %0 = "stepwell.select"(%false, %y, %x) : (tensor<4xi1>, tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[WIDE:.+]] = "stepwell.broadcast_to"(%[[Y]])
  %1 = "stepwell.select"(%false, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %2 = "stepwell.select"(%c, %x, %x) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]], %[[WIDE]], %[[X]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_select_by_mixed_constant
func.func @negative_select_by_mixed_constant(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %c = "stepwell.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
  // CHECK: stepwell.select
  %0 = "stepwell.select"(%c, %x, %y) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
