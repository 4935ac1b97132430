// RUN: stepwell-opt %s --stepwell-time-kernels | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-time-kernels)' | FileCheck %s --check-prefix=NAMES

// Every call has its place in the table.
// NAMES: stepwell.timed_kernels = ["second", "first", "second"]
llvm.func @first(!llvm.ptr)
llvm.func @second(!llvm.ptr)

// CHECK-LABEL: llvm.func @main
llvm.func @main(%x: !llvm.ptr) {
  // CHECK: %[[INDEX:.*]] = llvm.mlir.constant(0 : i64)
  // CHECK-NEXT: %[[START:.*]] = llvm.call @stepwell.now()
  // CHECK-NEXT: llvm.call @second
  // CHECK-NEXT: llvm.call @stepwell.record(%[[INDEX]], %[[START]])
  llvm.call @second(%x) : (!llvm.ptr) -> ()
  // CHECK: llvm.mlir.constant(1 : i64)
  // CHECK: llvm.call @first
  llvm.call @first(%x) : (!llvm.ptr) -> ()
  // CHECK: llvm.mlir.constant(2 : i64)
  // CHECK: llvm.call @second
  llvm.call @second(%x) : (!llvm.ptr) -> ()
  llvm.return
}

// CHECK: llvm.mlir.global external @stepwell_times(dense<0> : tensor<6xi64>)
