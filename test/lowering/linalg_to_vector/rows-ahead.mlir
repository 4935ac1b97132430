// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=aarch64},stepwell-vectorize)' | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3},stepwell-vectorize)' | FileCheck %s --check-prefix=NEGATIVE

// If a multiply-add can broadcast one lane, four elements of a row, for four steps, are read as one vector.
// CHECK-LABEL: func.func private @matmul
// CHECK-SAME: ahead = 4 : i64
// CHECK: scf.for %{{.+}} = %{{.+}} to %c16
// CHECK: %[[ROW:.+]] = vector.transfer_read %{{.+}} : tensor<8x64xf32>, vector<4xf32>
// CHECK: %[[ONE:.+]] = vector.extract %[[ROW]][0] : f32 from vector<4xf32>
// CHECK: vector.broadcast %[[ONE]] : f32 to vector<8xf32>
// CHECK: vector.extract %[[ROW]][3] : f32 from vector<4xf32>
// CHECK-NOT: tensor.extract %

// Elsewhere every element is read for itself.
// NEGATIVE-LABEL: func.func private @matmul
// NEGATIVE-NOT: ahead
// NEGATIVE-NOT: vector<4xf32>
// NEGATIVE: %[[ONE:.+]] = tensor.extract %
// NEGATIVE: vector.broadcast %[[ONE]] : f32 to vector<8xf32>
// NEGATIVE-NOT: vector<4xf32>
func.func private @matmul(%x: tensor<8x64xf32>, %w: tensor<512xf32>) -> tensor<8x8xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 8 : i64, panel = 8 : i64} : (tensor<8x64xf32>, tensor<512xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
