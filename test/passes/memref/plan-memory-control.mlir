// RUN: stepwell-opt %s -split-input-file --pass-pipeline='builtin.module(stepwell-plan-memory,canonicalize,cse)' | FileCheck %s

// The results of a branch are written directly into the result; existing values are copied. A bool is a byte.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[C:.*]]: memref<i8>, %[[Y:.*]]: memref<4xf32>
// CHECK: %[[BYTE:.*]] = memref.load %[[C]][]
// CHECK: %[[BIT:.*]] = arith.cmpi ne, %[[BYTE]], %{{.*}} : i8
// CHECK: scf.if %[[BIT]] {
// CHECK:   %[[T:.*]] = memref.view
// CHECK:   call @k(%[[X]], %[[T]])
// CHECK:   call @k(%[[T]], %[[Y]])
// CHECK: } else {
// CHECK:   memref.copy %[[X]], %[[Y]]
// CHECK: }
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %b = tensor.extract %c[] : tensor<i1>
  %r = scf.if %b -> tensor<4xf32> {
    %0 = func.call @k(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = func.call @k(%0, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// A loop copies its carried values at the end of an iteration, through a temporary if two values are swapped. The
// tensor from before the loop, @k of %x, lives until the loop ends, though its last reader is the body's first op.

// CHECK: {bytes = 16 : i64, first = 1 : i64, last = 9 : i64, name = "k", offset = 0 : i64}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[P:.*]]: memref<4xf32>, %[[Q:.*]]: memref<4xf32>, %[[ARENA:.*]]: memref<192xi8>)
// CHECK: %[[BEFORE:.*]] = memref.view
// CHECK: call @k(%[[X]], %[[BEFORE]])
// CHECK: memref.copy %[[X]], %[[P]]
// CHECK: memref.copy %[[X]], %[[Q]]
// CHECK: scf.for
// CHECK:   %[[NEW:.*]] = memref.view %[[ARENA]]
// CHECK:   call @add(%[[BEFORE]], %[[P]], %[[NEW]])
// CHECK:   %[[ASIDE:.*]] = memref.view %[[ARENA]]
// CHECK:   memref.copy %[[Q]], %[[ASIDE]]
// CHECK:   memref.copy %[[NEW]], %[[Q]]
// CHECK:   memref.copy %[[ASIDE]], %[[P]]
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func private @add(%x: tensor<4xf32>, %y: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %d = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %ten = arith.constant 10 : index
  %before = func.call @k(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r:2 = scf.for %i = %zero to %ten step %one iter_args(%p = %x, %q = %x) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = func.call @add(%before, %p, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %q, %0 : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// An integer, which is the same in memory, is read as it is.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[N:.*]] = memref.load %{{.*}}[] : memref<i64>
// CHECK-NOT:     arith.cmpi
// CHECK:         %[[END:.*]] = arith.index_cast %[[N]]
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[END]]
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = tensor.extract %n[] : tensor<i64>
  %end = arith.index_cast %count : i64 to index
  %r = scf.for %i = %zero to %end step %one iter_args(%p = %x) -> (tensor<4xf32>) {
    %0 = func.call @k(%p, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
