// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-plan-memory,func.func(eliminate-empty-tensors),one-shot-bufferize{buffer-alignment=64},canonicalize,cse,canonicalize,func.func(buffer-hoisting,buffer-loop-hoisting,promote-buffers-to-stack{max-alloc-size-in-bytes=65536 max-rank-of-allocated-memref=8}),stepwell-plan-workspaces)' | FileCheck %s

// A kernel writes to its destination without copy or allocation, in parallel loops too. Its small temporary is on the
// stack, outside the sequential loop and inside the parallel one, where every thread has its own.

// CHECK-LABEL: func.func private @k(
// CHECK-SAME: %[[X:.*]]: memref<64x128xf32> {llvm.noalias, llvm.readonly}, %[[OUT:.*]]: memref<64x128xf32> {llvm.noalias})
// CHECK-NOT: memref.copy
// CHECK: scf.forall
// CHECK:   %[[ROW:.*]] = memref.subview %[[OUT]]
// CHECK:   memref.alloca() {alignment = 64 : i64} : memref<1x128xf32>
// CHECK:   scf.for
// CHECK:     linalg.add {{.*}} outs(%[[ROW]]
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @k(%x: tensor<64x128xf32>, %out: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.forall (%i) in (64) shared_outs(%s = %out) -> (tensor<64x128xf32>) {
    %xs = tensor.extract_slice %x[%i, 0] [1, 128] [1, 1] : tensor<64x128xf32> to tensor<1x128xf32>
    %e = tensor.empty() : tensor<1x128xf32>
    %t = linalg.exp ins(%xs : tensor<1x128xf32>) outs(%e : tensor<1x128xf32>) -> tensor<1x128xf32>
    %rounds = scf.for %k = %c0 to %c4 step %c1 iter_args(%a = %t) -> tensor<1x128xf32> {
      %e2 = tensor.empty() : tensor<1x128xf32>
      %u = linalg.exp ins(%a : tensor<1x128xf32>) outs(%e2 : tensor<1x128xf32>) -> tensor<1x128xf32>
      %v = linalg.add ins(%a, %u : tensor<1x128xf32>, tensor<1x128xf32>) outs(%a : tensor<1x128xf32>) -> tensor<1x128xf32>
      scf.yield %v : tensor<1x128xf32>
    }
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %rounds into %s[%i, 0] [1, 128] [1, 1] : tensor<1x128xf32> into tensor<64x128xf32>
    }
  }
  return %r : tensor<64x128xf32>
}
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %d = tensor.empty() : tensor<64x128xf32>
  %0 = func.call @k(%x, %d) : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
