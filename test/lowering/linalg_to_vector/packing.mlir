// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4})' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' --split-input-file | FileCheck %s --check-prefix=VECTOR

// A panel is packed in the loop over panels, before the loop over rows; blocks of a parallel loop have all rows.
// CHECK-LABEL: func.func private @stored_by_columns
// CHECK: scf.forall (%{{.+}}) = (0) to (64)
// CHECK-NOT: linalg
// CHECK: scf.for %{{.+}} step %c1 iter_args
// CHECK: %[[EMPTY:.+]] = tensor.empty() : tensor<1x512x32xf32>
// CHECK: %[[PANEL:.+]] = linalg.generic {{.*}} outs(%[[EMPTY]] : tensor<1x512x32xf32>) attrs = {stepwell.packing = 0 : i64}
// CHECK: scf.for %{{.+}} step %c{{[0-9]+}} iter_args
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}}%[[PANEL]]{{.*}}stepwell.contraction = 0
// CHECK: linalg.generic {{.*}}stepwell.root = 0
// VECTOR-LABEL: func.func private @stored_by_columns
// VECTOR: scf.forall
// VECTOR: vector.shuffle
// VECTOR: vector.transfer_write
// VECTOR: memref.prefetch
// VECTOR-NOT: linalg
func.func private @stored_by_columns(%x: tensor<60x512xf32>, %w: tensor<1048576xf32>, %b: tensor<2048xf32>) -> tensor<60x2048xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 2048 : i64, panel = 32 : i64, stored = "columns"} : (tensor<60x512xf32>, tensor<1048576xf32>) -> tensor<60x2048xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<60x2048xf32>, tensor<2048xf32>) -> tensor<60x2048xf32>
  return %1 : tensor<60x2048xf32>
}

// -----

// Without an epilogue, tiles of sums start in the loop over rows.
// CHECK-LABEL: func.func private @sums_alone
// CHECK: linalg.generic {{.*}}stepwell.packing = 0
// CHECK: scf.for %{{.+}} step %c{{[0-9]+}} iter_args
// CHECK: linalg.generic {{.*}}stepwell.contraction = 0
// VECTOR-LABEL: func.func private @sums_alone
// VECTOR-NOT: linalg
func.func private @sums_alone(%x: tensor<60x512xf32>, %w: tensor<262144xf32>) -> tensor<60x512xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512 : i64, panel = 32 : i64, stored = "rows"} : (tensor<60x512xf32>, tensor<262144xf32>) -> tensor<60x512xf32>
  return %0 : tensor<60x512xf32>
}

// -----

// CHECK-LABEL: func.func private @negative_packed
// CHECK-NOT: stepwell.packing
func.func private @negative_packed(%x: tensor<60x512xf32>, %w: tensor<262144xf32>) -> tensor<60x512xf32>
    attributes {stepwell.kernel = {class = "contraction"}} {
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512 : i64, panel = 32 : i64} : (tensor<60x512xf32>, tensor<262144xf32>) -> tensor<60x512xf32>
  return %0 : tensor<60x512xf32>
}
