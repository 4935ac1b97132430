// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4})' --split-input-file | FileCheck %s

// A result of several megabytes is written row by row if the weight stays in the cache: blocks have all panels, and the
// loop over panels is inside the loop over rows.
// CHECK-LABEL: func.func private @rows_outside
// CHECK: scf.forall (%{{.+}}) = (0) to (4096)
// CHECK: scf.for %{{.+}} step %c13 iter_args
// CHECK: scf.for %{{.+}} to %c8 step %c1 iter_args
// CHECK: linalg.generic
func.func private @rows_outside(%x: tensor<4096x64xf32>, %w: tensor<16384xf32>) -> tensor<4096x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 256 : i64, panel = 32 : i64} : (tensor<4096x64xf32>, tensor<16384xf32>) -> tensor<4096x256xf32>
  return %0 : tensor<4096x256xf32>
}

// -----

// A larger weight is read panel by panel.
// CHECK-LABEL: func.func private @negative_large_weight
// CHECK: scf.forall (%{{.+}}, %{{.+}}) = (0, 0) to (4096, 8)
// CHECK: scf.for %{{.+}} to %c2 step %c1 iter_args
// CHECK: scf.for %{{.+}} step %c1{{[2-4]}} iter_args
// CHECK: linalg.generic
func.func private @negative_large_weight(%x: tensor<4096x512xf32>, %w: tensor<131072xf32>) -> tensor<4096x256xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 256 : i64, panel = 32 : i64} : (tensor<4096x512xf32>, tensor<131072xf32>) -> tensor<4096x256xf32>
  return %0 : tensor<4096x256xf32>
}
