// RUN: stepwell-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-share-out-calls{target=x86-64-v3})' | FileCheck %s

// CHECK: llvm.func internal @stepwell_share(
// CHECK: llvm.func @stepwell_work(%{{.*}}: !llvm.ptr, %{{.*}}: i64)

llvm.func @k(!llvm.ptr, i64, !llvm.ptr, i64, i64)
llvm.func @whole(!llvm.ptr)

// The function that workers call loads its arguments from memory.

// CHECK-LABEL: llvm.func internal @k.part(
// CHECK-SAME: %[[ARGS:.*]]: !llvm.ptr, %[[FIRST:.*]]: i64, %[[LAST:.*]]: i64) {
// CHECK: %[[P1:.*]] = llvm.getelementptr inbounds %[[ARGS]][1]
// CHECK: %[[N:.*]] = llvm.load %[[P1]] : !llvm.ptr -> i64
// CHECK: llvm.call @k(%{{.*}}, %[[N]], %{{.*}}, %[[FIRST]], %[[LAST]])

// CHECK-LABEL: llvm.func @main(
// CHECK-SAME: %[[X:[^:]*]]: !llvm.ptr, %[[SIZE:[^:]*]]: i64, %[[TEAM:[^:]*]]: !llvm.ptr) {
// CHECK: %[[SLOTS:.*]] = llvm.alloca
// CHECK: %[[LONG:.*]] = llvm.mlir.constant(1 : i64) : i64
// CHECK: llvm.call @stepwell_begin(%[[TEAM]], %[[LONG]])
// CHECK: llvm.call @whole(%[[X]])
// CHECK: llvm.store %[[X]]
// CHECK: llvm.store %[[SIZE]]
// CHECK: llvm.store %[[X]]
// CHECK: %[[PART:.*]] = llvm.mlir.addressof @k.part
// CHECK: llvm.call @stepwell_share(%[[TEAM]], %[[PART]], %[[SLOTS]], %{{.*}}, %{{.*}}) {stepwell.shared_kernel = @k}
// CHECK: llvm.call @stepwell_end(%[[TEAM]])
// CHECK: llvm.return
llvm.func @main(%x: !llvm.ptr, %n: i64) {
  %first = llvm.mlir.constant(0 : i64) : i64
  %last = llvm.mlir.constant(7 : i64) : i64
  llvm.call @whole(%x) : (!llvm.ptr) -> ()
  llvm.call @k(%x, %n, %x, %first, %last) {stepwell.shared} : (!llvm.ptr, i64, !llvm.ptr, i64, i64) -> ()
  llvm.return
}

// -----

// A short program is declared as such, and wakes no worker by itself.

// CHECK-LABEL: llvm.func @main(
// CHECK: %[[SHORT:.*]] = llvm.mlir.constant(2 : i64) : i64
// CHECK: llvm.call @stepwell_begin(%{{.*}}, %[[SHORT]])
module attributes {stepwell.is_short} {
  llvm.func @k(!llvm.ptr, i64, i64)
  llvm.func @main(%x: !llvm.ptr, %first: i64, %last: i64) {
    llvm.call @k(%x, %first, %last) {stepwell.shared} : (!llvm.ptr, i64, i64) -> ()
    llvm.return
  }
}

// -----

// Without distributed loops, the program uses no threads.

// CHECK-NOT: stepwell_work
// CHECK: llvm.func @main(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) {
// CHECK-NEXT: llvm.return
llvm.func @main(%x: !llvm.ptr) {
  llvm.return
}

// -----

// expected-error @+1 {{there is no function @main}}
module {
  llvm.func @negative_other()
}
