// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// The four least elements stay in a vector; 32 others at once are compared with the last of them.

// CHECK-LABEL: func.func private @few(
// CHECK: scf.for
// CHECK: %[[LAST:.*]] = vector.extract %{{.*}}[2] : i32 from vector<4xi32>
// CHECK: vector.broadcast %[[LAST]] : i32 to vector<32xi32>
// CHECK: vector.bitcast %{{.*}} : vector<32xi1> to vector<1xi32>
// CHECK: scf.while
// CHECK: math.cttz
// CHECK: vector.transfer_write {{.*}} : vector<3xi64>
func.func private @few(%x: tensor<2x100xf32>) -> tensor<2x3xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 3 : i64, largest = true} : (tensor<2x100xf32>) -> tensor<2x3xi64>
  return %0 : tensor<2x3xi64>
}

// Fifty elements do not fit a vector.

// CHECK-LABEL: func.func private @negative_many(
// CHECK-NOT: scf.while
// CHECK: return
func.func private @negative_many(%x: tensor<2x100xf32>) -> tensor<2x50xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 50 : i64, largest = true} : (tensor<2x100xf32>) -> tensor<2x50xi64>
  return %0 : tensor<2x50xi64>
}
