// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// A few of many elements: the least ones of 128 groups give a bound, and elements that do not exceed it are appended.

// CHECK-LABEL: func.func private @some(
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]} ins(%{{.*}} : tensor<7x128xi32>)
// CHECK:   arith.minsi
// CHECK: %[[BOUND:.*]] = scf.for {{.*}} -> (i32)
// CHECK:   linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%{{.*}} : tensor<128xi32>)
// CHECK: scf.for
// CHECK:   %[[LIMIT:.*]] = vector.broadcast %[[BOUND]] : i32 to vector<32xi32>
// CHECK:   arith.cmpi sle, %{{.*}}, %[[LIMIT]] : vector<32xi32>
// CHECK:   math.ctpop
// CHECK:   scf.for
// CHECK:     math.cttz
func.func private @some(%x: tensor<1000xf32>) -> tensor<50xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 50 : i64, largest = true} : (tensor<1000xf32>) -> tensor<50xi64>
  return %0 : tensor<50xi64>
}

// If half of the elements are selected, none is dropped.

// CHECK-LABEL: func.func private @negative_some(
// CHECK-NOT: math.ctpop
func.func private @negative_some(%x: tensor<1000xf32>) -> tensor<500xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 500 : i64, largest = true} : (tensor<1000xf32>) -> tensor<500xi64>
  return %0 : tensor<500xi64>
}
