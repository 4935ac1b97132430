// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @constant
func.func @constant(
) {
  // CHECK: "stepwell.constant"() {value = dense<[1, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %0 = "stepwell.constant"() {value = dense<[1, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK: "stepwell.parameter"()
  // CHECK-SAME: {dtype = f32, name = "fc1.weight", shape = array<i64: 128, 384>}
  // CHECK-SAME: : () -> tensor<128x384xf32>
  %1 = "stepwell.parameter"() {name = "fc1.weight", shape = array<i64: 128, 384>, dtype = f32}
    : () -> tensor<128x384xf32>
  return
}
