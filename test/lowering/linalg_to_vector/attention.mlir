// RUN: stepwell-opt %s --split-input-file --pass-pipeline='builtin.module(stepwell-form-kernels,stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3})' | FileCheck %s --check-prefix=TILED
// RUN: stepwell-opt %s --split-input-file --pass-pipeline='builtin.module(stepwell-form-kernels,stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v3},stepwell-vectorize)' | FileCheck %s --check-prefix=VECTOR

// A block of queries of one head: scores in register tiles, the softmax in the cache, the result in register tiles.
// TILED-LABEL: func.func private @kernel_0(
// TILED-SAME:    stepwell.schedule = {columns = 16 : i64, keys = 5 : i64, name = "attention", queries = 16 : i64, rows = 4 : i64
// TILED:         scf.forall (%{{.+}}, %{{.+}}) = (0, 0) to (2, 64) step (1, 16)
// TILED:           tensor.empty() : tensor<1x1x8x16xf32>
// TILED:           stepwell.role = "query"
// TILED:           tensor.empty() : tensor<1x1x20x16xf32>
// TILED:           scf.for
// TILED:             stepwell.role = "scores"{{.*}}
// TILED:             scf.yield
// TILED:           stepwell.role = "weights"
// TILED:           scf.for
// TILED:             stepwell.role = "sum"
// TILED:             stepwell.role = "result"

// The initial values of a tile of scores are in registers; the exponentials replace the scores.
// VECTOR-LABEL: func.func private @kernel_0(
// VECTOR:         scf.forall
// VECTOR-NOT:     linalg.fill
// VECTOR:           %[[S:.+]] = scf.for {{.*}} -> (tensor<1x1x20x16xf32>)
// VECTOR:             scf.for
// VECTOR-COUNT-5:       vector.fma
// VECTOR:           %[[M:.+]] = scf.for
// VECTOR:             arith.select
// VECTOR:           scf.for {{.*}} iter_args(%[[W:.+]] = %[[S]], %{{.+}} = %{{.+}})
// VECTOR:             vector.transfer_read %[[W]]
// VECTOR:             math.exp
// VECTOR:             vector.transfer_write %{{.+}}, %[[W]]
// VECTOR:           scf.for
// VECTOR:             vector.fma
func.func @main(%q: tensor<1x2x64x8xf32>, %k: tensor<1x2x20x8xf32>, %v: tensor<1x2x20x16xf32>) -> tensor<1x2x64x16xf32> {
  %a = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64} : (tensor<1x2x64x8xf32>, tensor<1x2x20x8xf32>, tensor<1x2x20x16xf32>) -> tensor<1x2x64x16xf32>
  return %a : tensor<1x2x64x16xf32>
}

// -----

// Rows too long for two of them in the cache: a block of one register of queries.
// TILED-LABEL: func.func private @kernel_0(
// TILED-SAME:    queries = 8 : i64
// TILED:         scf.forall (%{{.+}}, %{{.+}}) = (0, 0) to (2, 64) step (1, 8)
func.func @main(%q: tensor<1x2x64x8xf32>, %k: tensor<1x2x2000x8xf32>, %v: tensor<1x2x2000x16xf32>) -> tensor<1x2x64x16xf32> {
  %a = "stepwell.attention"(%q, %k, %v) {scale = 0.5 : f64} : (tensor<1x2x64x8xf32>, tensor<1x2x2000x8xf32>, tensor<1x2x2000x16xf32>) -> tensor<1x2x64x16xf32>
  return %a : tensor<1x2x64x16xf32>
}
