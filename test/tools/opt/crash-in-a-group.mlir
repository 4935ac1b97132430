// RUN: not --crash stepwell-opt %s --pass-pipeline="builtin.module(cse,canonicalize,gpu.module(xegpu-subgroup-distribute),symbol-dce)" 2>&1 | FileCheck %s

// MLIR runs these passes in one pass manager. The message names the pass that aborts.

// CHECK: stepwell-opt: error: MLIR crashed (SIGABRT) in xegpu-subgroup-distribute
// CHECK-NOT: symbol-dce

gpu.module @kernels {
  gpu.func @f() kernel { gpu.return }
}
