// RUN: stepwell-opt %s --stepwell-fuse-composites | FileCheck %s

// CHECK-LABEL: func.func @silu
// CHECK-NEXT: stepwell.silu
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_silu_of_another
// CHECK-NOT: stepwell.silu
func.func @negative_silu_of_another(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @hard_swish
// CHECK: stepwell.hard_swish
// CHECK-NEXT: return
func.func @hard_swish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %six = "stepwell.constant"() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.add"(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.clip"(%0) {minimum = 0.0 : f64, maximum = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.mul"(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "stepwell.div"(%2, %six) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// CHECK-LABEL: func.func @negative_hard_sigmoid_of_other_slope
// CHECK: stepwell.hard_sigmoid
// CHECK-NEXT: stepwell.mul
func.func @negative_hard_sigmoid_of_other_slope(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.hard_sigmoid"(%x) {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.mul"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @gelu
// CHECK: "stepwell.gelu"(%{{.+}}) {approximate = "none"}
// CHECK-NEXT: return
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = "stepwell.constant"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %one = "stepwell.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %half = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.div"(%x, %root) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "stepwell.erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.add"(%1, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = "stepwell.mul"(%x, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "stepwell.mul"(%3, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: (%[[X:.+]]: tensor<2x8xf32>)
// CHECK: %[[SCALE:.+]] = "stepwell.parameter"
// CHECK: "stepwell.layer_norm"(%[[X]], %[[SCALE]]) {axis = 1 : i64, epsilon = 1.25{{0*}}e-01
// CHECK-NEXT: return
func.func @layer_norm(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %epsilon = "stepwell.constant"() {value = dense<0.125> : tensor<f32>} : () -> tensor<f32>
  %scale = "stepwell.parameter"() {name = "scale", shape = array<i64: 8>, dtype = f32} : () -> tensor<8xf32>
  %0 = "stepwell.reduce_mean"(%x) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %1 = "stepwell.sub"(%x, %0) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = "stepwell.mul"(%1, %1) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = "stepwell.reduce_mean"(%2) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %4 = "stepwell.add"(%3, %epsilon) : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = "stepwell.sqrt"(%4) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %6 = "stepwell.div"(%1, %5) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %7 = "stepwell.mul"(%6, %scale) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @rms_norm
// CHECK: "stepwell.rms_norm"
// CHECK-NEXT: return
func.func @rms_norm(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %epsilon = "stepwell.constant"() {value = dense<0.125> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%x, %x) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = "stepwell.reduce_mean"(%0) {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = "stepwell.add"(%1, %epsilon) : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = "stepwell.rsqrt"(%2) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = "stepwell.mul"(%x, %3) : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}
