// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-form-kernels)' --split-input-file | FileCheck %s

// A large result with equal elements is filled at run time.
// CHECK-LABEL: func.func @main
// CHECK-NOT: dense<0.000000e+00> : tensor<64x64xf32>
// CHECK: %[[R:.*]] = call @[[KERNEL:.*]]() {{.*}} -> tensor<64x64xf32>
// CHECK: return %[[R]]
// CHECK: func.func private @[[KERNEL]]() -> tensor<64x64xf32>
// CHECK: broadcast_to
func.func @main() -> tensor<64x64xf32> {
  %0 = "stepwell.constant"() {value = dense<0.0> : tensor<64x64xf32>} : () -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// A small one is a literal.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = "stepwell.constant"() {value = dense<0.000000e+00> : tensor<4xf32>}
// CHECK: return %[[C]]
func.func @main() -> tensor<4xf32> {
  %0 = "stepwell.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A large result that is computed is not filled.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.*]] = call @{{.*}} -> tensor<64x64xf32>
// CHECK:         return %[[R]]
// CHECK-NOT:     broadcast_to
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
