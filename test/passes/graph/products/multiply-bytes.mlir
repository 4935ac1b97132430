// RUN: stepwell-opt %s --stepwell-multiply-bytes | FileCheck %s
// RUN: stepwell-opt %s --stepwell-multiply-bytes --remarks-filter-missed=.* -o %t 2>&1 | FileCheck %s --check-prefix=WHY

// The zero point of a fixed weight is taken out of the sums; that of the input is part of them.
// CHECK-LABEL: func.func @dequantized
// CHECK-SAME: (%[[A:.+]]: tensor<4x8xui8>, %[[S:.+]]: tensor<f32>)
// CHECK: %[[B:.+]] = "stepwell.parameter"() {{.*}}name = "b"
// CHECK: %[[T:.+]] = "stepwell.parameter"() {{.*}}name = "t"
// CHECK: %[[SUMS:.+]] = "stepwell.matmul"(%[[A]], %[[B]]) {{.*}} : (tensor<4x8xui8>, tensor<8x2xi8>) -> tensor<4x2xi32>
// CHECK: %[[FACTOR:.+]] = "stepwell.mul"(%[[S]], %[[T]]) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK: %[[WIDE:.+]] = "stepwell.cast"(%[[SUMS]]) {dtype = f32}
// CHECK: %[[Y:.+]] = "stepwell.mul"(%[[WIDE]], %[[FACTOR]])
// CHECK: return %[[Y]]
func.func @dequantized(%a: tensor<4x8xui8>, %s: tensor<f32>) -> tensor<4x2xf32> {
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 8, 2>, dtype = i8} : () -> tensor<8x2xi8>
  %t = "stepwell.parameter"() {name = "t", shape = array<i64: 2>, dtype = f32} : () -> tensor<2xf32>
  %0 = "stepwell.cast"(%a) {dtype = f32} : (tensor<4x8xui8>) -> tensor<4x8xf32>
  %1 = "stepwell.mul"(%0, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = "stepwell.cast"(%b) {dtype = f32} : (tensor<8x2xi8>) -> tensor<8x2xf32>
  %3 = "stepwell.mul"(%2, %t) : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  %4 = "stepwell.matmul"(%1, %3) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}

// Signed inputs are shifted by 128, and their zero point with them.
// CHECK-LABEL: func.func @integers
// CHECK: %[[BIT:.+]] = "stepwell.constant"() {value = dense<-128> : tensor<i8>}
// CHECK: "stepwell.xor"(%{{.+}}, %[[BIT]])
// CHECK: "stepwell.bitcast"
// CHECK: "stepwell.matmul"(%{{.+}}, %{{.+}}) {{.*}} : (tensor<4x8xui8>, tensor<8x2xi8>) -> tensor<4x2xi32>
// CHECK: "stepwell.reduce_sum"
// CHECK: "stepwell.sub"
func.func @integers(%a: tensor<4x8xi8>) -> tensor<4x2xi32> {
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 8, 2>, dtype = i8} : () -> tensor<8x2xi8>
  %p = "stepwell.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %0 = "stepwell.cast"(%a) {dtype = i32} : (tensor<4x8xi8>) -> tensor<4x8xi32>
  %1 = "stepwell.sub"(%0, %p) : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %2 = "stepwell.cast"(%b) {dtype = i32} : (tensor<8x2xi8>) -> tensor<8x2xi32>
  %3 = "stepwell.matmul"(%1, %2) : (tensor<4x8xi32>, tensor<8x2xi32>) -> tensor<4x2xi32>
  return %3 : tensor<4x2xi32>
}

// A computed zero point pads as a value of bytes.
// CHECK-LABEL: func.func @convolution
// CHECK: %[[START:.+]] = "stepwell.cast"(%{{.+}}) {dtype = ui8}
// CHECK: %[[BEYOND:.+]] = "stepwell.sub"(%{{.+}}, %[[START]]) {{.*}}xui8>
// CHECK: %[[PADDED:.+]] = "stepwell.pad"(%[[BEYOND]])
// CHECK: %[[INPUT:.+]] = "stepwell.add"(%[[PADDED]], %[[START]])
// CHECK: "stepwell.conv"(%[[INPUT]], {{.*}}pads = array<i64: 0, 0, 0, 0>
// CHECK-SAME: -> tensor<1x4x6x6xi32>
func.func @convolution(%x: tensor<1x2x6x6xui8>, %p: tensor<i32>) -> tensor<1x4x6x6xi32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 2, 3, 3>, dtype = i8} : () -> tensor<4x2x3x3xi8>
  %0 = "stepwell.cast"(%x) {dtype = i32} : (tensor<1x2x6x6xui8>) -> tensor<1x2x6x6xi32>
  %1 = "stepwell.sub"(%0, %p) : (tensor<1x2x6x6xi32>, tensor<i32>) -> tensor<1x2x6x6xi32>
  %2 = "stepwell.cast"(%w) {dtype = i32} : (tensor<4x2x3x3xi8>) -> tensor<4x2x3x3xi32>
  %3 = "stepwell.conv"(%1, %2) {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x2x6x6xi32>, tensor<4x2x3x3xi32>) -> tensor<1x4x6x6xi32>
  return %3 : tensor<1x4x6x6xi32>
}

// CHECK-LABEL: func.func @negative_two_inputs
// CHECK: "stepwell.matmul"{{.*}} -> tensor<4x4xf32>
// WHY: the right operand is computed in every run
func.func @negative_two_inputs(%a: tensor<4x4xui8>, %s: tensor<f32>) -> tensor<4x4xf32> {
  %0 = "stepwell.cast"(%a) {dtype = f32} : (tensor<4x4xui8>) -> tensor<4x4xf32>
  %1 = "stepwell.mul"(%0, %s) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = "stepwell.matmul"(%1, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @negative_floats
// CHECK: "stepwell.matmul"{{.*}} -> tensor<4x2xf32>
func.func @negative_floats(%x: tensor<4x8xf32>, %y: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "stepwell.matmul"(%x, %y) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
