// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @add_zero
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @add_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.add"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]]
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_add_zero_that_broadcasts
func.func @negative_add_zero_that_broadcasts(%x: tensor<1xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "stepwell.add"(%x, %zero) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: stepwell.broadcast_to
  // CHECK-NOT: stepwell.add
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_mul_zero_of_floats
func.func @negative_mul_zero_of_floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  // NaN times zero is NaN.
  // CHECK: stepwell.mul
  %0 = "stepwell.mul"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @mul_zero_of_integers
func.func @mul_zero_of_integers(%x: tensor<4xi64>) -> tensor<4xi64> {
  %zero = "stepwell.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  // CHECK: %[[ZERO:.+]] = "stepwell.constant"() {value = dense<0> : tensor<4xi64>}
  // CHECK-NEXT: return %[[ZERO]]
  %0 = "stepwell.mul"(%x, %zero) : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @square
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = "stepwell.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: "stepwell.mul"(%[[X]], %[[X]])
  %0 = "stepwell.pow"(%x, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @constant_to_the_right
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @constant_to_the_right(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stepwell.constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: %[[C:.+]] = "stepwell.constant"
  // CHECK-NEXT: "stepwell.add"(%[[X]], %[[C]])
  %0 = "stepwell.add"(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Only the operands of commutative ops change places.
// CHECK-LABEL: func.func @negative_subtract_from_constant
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @negative_subtract_from_constant(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "stepwell.constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: %[[C:.+]] = "stepwell.constant"
  // CHECK-NEXT: "stepwell.sub"(%[[C]], %[[X]])
  %0 = "stepwell.sub"(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Zero is only neutral on the right.
// CHECK-LABEL: func.func @negative_zero_minus_x
func.func @negative_zero_minus_x(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = "stepwell.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: stepwell.sub
  %0 = "stepwell.sub"(%zero, %x) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @x_minus_x
func.func @x_minus_x(%x: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK: %[[ZERO:.+]] = "stepwell.constant"() {value = dense<0> : tensor<4xi32>}
  // CHECK-NEXT: return %[[ZERO]]
  %0 = "stepwell.sub"(%x, %x) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// Infinity minus infinity is NaN.
// CHECK-LABEL: func.func @negative_x_minus_x_of_floats
func.func @negative_x_minus_x_of_floats(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: stepwell.sub
  %0 = "stepwell.sub"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A constant needs a shape.
// CHECK-LABEL: func.func @negative_x_minus_x_of_unknown_shape
func.func @negative_x_minus_x_of_unknown_shape(%x: tensor<?xi32>) -> tensor<?xi32> {
  // CHECK-NEXT: stepwell.sub
  %0 = "stepwell.sub"(%x, %x) : (tensor<?xi32>, tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}

// CHECK-LABEL: func.func @powers
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @powers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %half = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %minus = "stepwell.constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NEXT: %[[SQUARE:.+]] = "stepwell.mul"(%[[X]], %[[X]])
  // CHECK-NEXT: %[[CUBE:.+]] = "stepwell.mul"(%[[SQUARE]], %[[X]])
  %0 = "stepwell.pow"(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.pow"(%0, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // The reciprocal of the root is one op.
  // CHECK-NEXT: "stepwell.rsqrt"(%[[CUBE]])
  %2 = "stepwell.pow"(%1, %minus) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// There is no reciprocal of integers.
// CHECK-LABEL: func.func @negative_inverse_of_integers
func.func @negative_inverse_of_integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %minus = "stepwell.constant"() {value = dense<-1> : tensor<i32>} : () -> tensor<i32>
  // CHECK: stepwell.pow
  %0 = "stepwell.pow"(%x, %minus) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// The square would have the shape of the operand.
// CHECK-LABEL: func.func @negative_square_that_broadcasts
func.func @negative_square_that_broadcasts(%x: tensor<1xf32>) -> tensor<4xf32> {
  %two = "stepwell.constant"() {value = dense<2.0> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: stepwell.pow
  %0 = "stepwell.pow"(%x, %two) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negatives
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<4xf32>)
func.func @negatives(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %minus = "stepwell.constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  %a = "stepwell.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[D:.+]] = "stepwell.sub"(%[[X]], %[[Y]])
  %b = "stepwell.add"(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = "stepwell.mul"(%b, %minus) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: "stepwell.abs"(%[[D]])
  %e = "stepwell.abs"(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// CHECK-LABEL: func.func @minus_one
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @minus_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %minus = "stepwell.constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NEXT: "stepwell.neg"(%[[X]])
  %0 = "stepwell.mul"(%x, %minus) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The negative would have the shape of the operand.
// CHECK-LABEL: func.func @negative_minus_one_that_broadcasts
func.func @negative_minus_one_that_broadcasts(%x: tensor<1xf32>) -> tensor<4xf32> {
  %minus = "stepwell.constant"() {value = dense<-1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  // CHECK: stepwell.mul
  %0 = "stepwell.mul"(%x, %minus) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The negative of 1 is 255, which is its own absolute value.
// CHECK-LABEL: func.func @negative_abs_of_unsigned
func.func @negative_abs_of_unsigned(%x: tensor<4xui8>) -> tensor<4xui8> {
  // CHECK-NEXT: stepwell.neg
  // CHECK-NEXT: stepwell.abs
  %0 = "stepwell.neg"(%x) : (tensor<4xui8>) -> tensor<4xui8>
  %1 = "stepwell.abs"(%0) : (tensor<4xui8>) -> tensor<4xui8>
  return %1 : tensor<4xui8>
}

// CHECK-LABEL: func.func @pairs
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>)
func.func @pairs(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stepwell.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stepwell.neg"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[R:.+]] = "stepwell.relu"(%[[X]])
  %d = "stepwell.relu"(%b) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[R]]
  %e = "stepwell.relu"(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// Two different ops are no pair.
// CHECK-LABEL: func.func @negative_relu_of_neg
func.func @negative_relu_of_neg(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: stepwell.neg
  // CHECK-NEXT: stepwell.relu
  %0 = "stepwell.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
