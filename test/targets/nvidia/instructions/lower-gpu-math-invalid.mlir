// RUN: not stepwell-opt %s --stepwell-lower-gpu-math 2>&1 | FileCheck %s

// Approximations have replaced the functions without an instruction by now.
gpu.module @m {
  llvm.func @k(%x: f32) -> f32 {
    // CHECK: lower-gpu-math-invalid.mlir:[[# @LINE + 1]]:{{.*}} 'math.erf' op: a GPU has no instruction for it
    %0 = math.erf %x : f32
    llvm.return %0 : f32
  }
}
