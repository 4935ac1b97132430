// RUN: stepwell-opt %s --stepwell-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @absorb
// CHECK-SAME: (%[[X:.+]]: tensor<4x1xf32>, %[[Y:.+]]: tensor<6xf32>)
func.func @absorb(%x: tensor<4x1xf32>, %y: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 4, 6>} : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %1 = "stepwell.broadcast_to"(%y) {shape = array<i64: 4, 6>} : (tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: "stepwell.mul"(%[[X]], %[[Y]])
  // CHECK-NEXT: return
  %2 = "stepwell.mul"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// Only one of the two broadcasts can be left out.
// CHECK-LABEL: func.func @absorb_one
// CHECK-SAME: (%[[X:.+]]: tensor<6xf32>, %[[Y:.+]]: tensor<6xf32>)
func.func @absorb_one(%x: tensor<6xf32>, %y: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 4, 6>} : (tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: %[[WIDE:.+]] = "stepwell.broadcast_to"(%[[Y]])
  %1 = "stepwell.broadcast_to"(%y) {shape = array<i64: 4, 6>} : (tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: "stepwell.sub"(%[[X]], %[[WIDE]])
  %2 = "stepwell.sub"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_broadcast_makes_the_shape
func.func @negative_broadcast_makes_the_shape(%x: tensor<6xf32>, %y: tensor<1x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: stepwell.broadcast_to
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 4, 6>} : (tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "stepwell.add"(%0, %y) : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_broadcast_of_unknown_shape
func.func @negative_broadcast_of_unknown_shape(%x: tensor<?xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: stepwell.broadcast_to
  %0 = "stepwell.broadcast_to"(%x) {shape = array<i64: 4, 6>} : (tensor<?xf32>) -> tensor<4x6xf32>
  %1 = "stepwell.add"(%0, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @splat
func.func @splat(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %c = "stepwell.constant"() {value = dense<3.0> : tensor<4x6xf32>} : () -> tensor<4x6xf32>
  // CHECK-NEXT: %[[C:.+]] = "stepwell.constant"() {value = dense<3.000000e+00> : tensor<f32>}
  // CHECK-NEXT: "stepwell.div"(%{{.+}}, %[[C]])
  %0 = "stepwell.div"(%x, %c) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_splat_makes_the_shape
func.func @negative_splat_makes_the_shape(%x: tensor<6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: "stepwell.constant"() {value = dense<3.000000e+00> : tensor<4x6xf32>}
  %c = "stepwell.constant"() {value = dense<3.0> : tensor<4x6xf32>} : () -> tensor<4x6xf32>
  %0 = "stepwell.div"(%x, %c) : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @negative_mixed_constant
func.func @negative_mixed_constant(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: "stepwell.constant"() {value = dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32>}
  %c = "stepwell.constant"() {value = dense<[3.0, 5.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "stepwell.div"(%x, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
