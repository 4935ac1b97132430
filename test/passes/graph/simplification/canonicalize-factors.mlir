// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @div_by_power_of_two
func.func @div_by_power_of_two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stepwell.constant"() {value = dense<8.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<1.250000e-01>
  // CHECK: "stepwell.mul"(%{{.+}}, %[[C]])
  %0 = "stepwell.div"(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// One third is rounded, although its product with 3 is exactly 1 in f64.
// CHECK-LABEL: func.func @negative_div_by_three
func.func @negative_div_by_three(%x: tensor<4xf64>) -> tensor<4xf64> {
  %c = "stepwell.constant"() {value = dense<3.0> : tensor<f64>} : () -> tensor<f64>
  // CHECK: stepwell.div
  %0 = "stepwell.div"(%x, %c) : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}

// CHECK-LABEL: func.func @merge_factors
func.func @merge_factors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %b = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<1.500000e+00>
  // CHECK-NEXT: "stepwell.mul"(%{{.+}}, %[[C]])
  // CHECK-NEXT: return
  %1 = "stepwell.mul"(%b, %0) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The reciprocal of 2^-17 is infinite in f16, but not all quotients are.
// CHECK-LABEL: func.func @negative_reciprocal_overflows
func.func @negative_reciprocal_overflows(%x: tensor<4xf16>) -> tensor<4xf16> {
  %c = "stepwell.constant"() {value = dense<0.00000762939453125> : tensor<f16>} : () -> tensor<f16>
  // CHECK: stepwell.div
  %0 = "stepwell.div"(%x, %c) : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// One eighth is no integer.
// CHECK-LABEL: func.func @negative_div_of_integers
func.func @negative_div_of_integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %c = "stepwell.constant"() {value = dense<8> : tensor<i32>} : () -> tensor<i32>
  // CHECK: stepwell.div
  %0 = "stepwell.div"(%x, %c) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// The product with 3 is rounded, although that of the factors is not.
// CHECK-LABEL: func.func @negative_rounded_factors
func.func @negative_rounded_factors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %b = "stepwell.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-COUNT-2: stepwell.mul
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The product of the factors is infinite in f16, but not all results are.
// CHECK-LABEL: func.func @negative_factors_overflow
func.func @negative_factors_overflow(%x: tensor<4xf16>) -> tensor<4xf16> {
  %a = "stepwell.constant"() {value = dense<1000.0> : tensor<f16>} : () -> tensor<f16>
  %b = "stepwell.constant"() {value = dense<128.0> : tensor<f16>} : () -> tensor<f16>
  // CHECK-COUNT-2: stepwell.mul
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  %1 = "stepwell.mul"(%0, %b) : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// The product of the factors is denormal and lacks digits, but not all results do.
// CHECK-LABEL: func.func @negative_factors_underflow
func.func @negative_factors_underflow(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.constant"() {value = dense<1.0e-30> : tensor<f32>} : () -> tensor<f32>
  %b = "stepwell.constant"() {value = dense<9.094947017729282e-13> : tensor<f32>} : () -> tensor<f32>
  // CHECK-COUNT-2: stepwell.mul
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The product of the factors would be a larger constant.
// CHECK-LABEL: func.func @negative_factors_of_other_shapes
func.func @negative_factors_of_other_shapes(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %a = "stepwell.constant"() {value = dense<[1.0, 2.0, 4.0, 8.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %b = "stepwell.constant"() {value = dense<[[0.5], [0.25]]> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  // CHECK-COUNT-2: stepwell.mul
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%0, %b) : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @factors_of_integers
func.func @factors_of_integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = "stepwell.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %b = "stepwell.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<21>
  // CHECK-NEXT: "stepwell.mul"(%{{.+}}, %[[C]])
  // CHECK-NEXT: return
  %0 = "stepwell.mul"(%x, %a) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %1 = "stepwell.mul"(%0, %b) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}

// Sums of integers wrap around in any order.
// CHECK-LABEL: func.func @terms_of_integers
func.func @terms_of_integers(%x: tensor<4xi8>) -> tensor<4xi8> {
  %a = "stepwell.constant"() {value = dense<100> : tensor<i8>} : () -> tensor<i8>
  %b = "stepwell.constant"() {value = dense<100> : tensor<i8>} : () -> tensor<i8>
  // CHECK: %[[C:.+]] = "stepwell.constant"() {value = dense<-56>
  // CHECK-NEXT: "stepwell.add"(%{{.+}}, %[[C]])
  // CHECK-NEXT: return
  %0 = "stepwell.add"(%x, %a) : (tensor<4xi8>, tensor<i8>) -> tensor<4xi8>
  %1 = "stepwell.add"(%0, %b) : (tensor<4xi8>, tensor<i8>) -> tensor<4xi8>
  return %1 : tensor<4xi8>
}

// Sums of floats depend on their order.
// CHECK-LABEL: func.func @negative_terms_of_floats
func.func @negative_terms_of_floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.constant"() {value = dense<1.0e10> : tensor<f32>} : () -> tensor<f32>
  %b = "stepwell.constant"() {value = dense<-1.0e10> : tensor<f32>} : () -> tensor<f32>
  // CHECK-COUNT-2: stepwell.add
  %0 = "stepwell.add"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @reciprocal_of_x
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @reciprocal_of_x(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = "stepwell.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NEXT: "stepwell.reciprocal"(%[[X]])
  %0 = "stepwell.div"(%one, %x) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// There is no reciprocal of integers.
// CHECK-LABEL: func.func @negative_reciprocal_of_integers
func.func @negative_reciprocal_of_integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %one = "stepwell.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  // CHECK: stepwell.div
  %0 = "stepwell.div"(%one, %x) : (tensor<i32>, tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
