// RUN: rm -f %t.mlir
// RUN: not --crash stepwell-opt %s --pass-pipeline="builtin.module(cse,stepwell-dce,gpu.module(xegpu-subgroup-distribute))" --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPRODUCER < %t.mlir

// An abort inside MLIR ends in a message that names the pass, and in a reproducer; the tool ends with the same signal.

// CHECK: stepwell-opt: error: MLIR crashed (SIGABRT) in xegpu-subgroup-distribute
// REPRODUCER: pipeline: "builtin.module(cse,stepwell-dce,gpu.module(xegpu-subgroup-distribute))"

gpu.module @kernels {
  gpu.func @f() kernel { gpu.return }
}
