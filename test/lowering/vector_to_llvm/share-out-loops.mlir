// RUN: stepwell-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-share-out-loops)' | FileCheck %s

// The iterations of a parallel loop are blocks, numbered with the last dimension fastest; a call computes all of them.

// CHECK-LABEL: func.func private @loop(
// CHECK-SAME: %[[X:.*]]: memref<4x24xf32> {llvm.noalias}, %[[FIRST:.*]]: index, %[[LAST:.*]]: index)
// CHECK-SAME: stepwell.phases = array<i64: 12>
// CHECK: scf.for %[[BLOCK:.*]] = %[[FIRST]] to %[[LAST]] step %{{.*}} {
// CHECK:   %[[THREE:.*]] = arith.constant 3 : index
// CHECK:   %[[REST:.*]] = arith.remui %[[BLOCK]], %[[THREE]]
// CHECK:   %[[I:.*]] = arith.divui %[[BLOCK]], %[[THREE]]
// CHECK:   %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK:   %[[J:.*]] = arith.muli %[[REST]], %[[EIGHT]]
// CHECK:   memref.store %{{.*}}, %[[X]][%[[I]], %[[J]]]
func.func private @loop(%x: memref<4x24xf32> {llvm.noalias}) attributes {stepwell.kernel = {}} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i, %j) = (0, 0) to (4, 24) step (1, 8) {
    memref.store %zero, %x[%i, %j] : memref<4x24xf32>
  }
  return
}

// CHECK-LABEL: func.func @main
// CHECK: %[[START:.*]] = arith.constant 0 : index
// CHECK: %[[END:.*]] = arith.constant 12 : index
// CHECK: call @loop(%{{.*}}, %[[START]], %[[END]]) {stepwell.shared}
func.func @main(%x: memref<4x24xf32>) {
  func.call @loop(%x) : (memref<4x24xf32>) -> ()
  return
}

// -----

// Loops that access disjoint parts of memory are one phase; the loop that reads their results is the next phase.

// CHECK-LABEL: func.func private @phases(
// CHECK-SAME: %[[FIRST:[^:]*]]: index, %[[LAST:[^:]*]]: index)
// CHECK-SAME: stepwell.phases = array<i64: 2, 6>
// CHECK: arith.maxui %[[FIRST]]
// CHECK: arith.minui
// CHECK: scf.for
// CHECK: %[[IN:.*]] = arith.andi
// CHECK: scf.if %[[IN]] {
// CHECK:   scf.for
// CHECK: arith.maxui %[[FIRST]]
// CHECK: scf.for
func.func private @phases(%x: memref<4xf32> {llvm.noalias}, %y: memref<4xf32> {llvm.noalias})
    attributes {stepwell.kernel = {}} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %left = memref.subview %x[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>
  %right = memref.subview %x[2] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 2>>
  scf.forall (%i) in (2) {
    memref.store %zero, %left[%i] : memref<2xf32, strided<[1]>>
  }
  scf.for %i = %c0 to %c2 step %c1 {
    memref.store %zero, %right[%i] : memref<2xf32, strided<[1], offset: 2>>
  }
  scf.forall (%i) in (4) {
    %0 = memref.load %x[%i] : memref<4xf32>
    memref.store %0, %y[%i] : memref<4xf32>
  }
  return
}

// Calls to declared functions, which were compiled before, keep their signature.
// CHECK: func.func private @declared(memref<4xf32> {llvm.noalias}, index, index)
func.func private @declared(memref<4xf32> {llvm.noalias})
  attributes {stepwell.kernel = {}, stepwell.phases = array<i64: 1, 5>}

// CHECK-LABEL: func.func @main
// CHECK: call @phases({{.*}}) {stepwell.shared}
// CHECK: call @phases({{.*}}) {stepwell.shared}
// CHECK: call @declared(%{{.*}}, %{{.*}}, %{{.*}}) : (
// CHECK: call @declared(%{{.*}}, %{{.*}}, %{{.*}}) {stepwell.shared}
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) {
  func.call @phases(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  func.call @declared(%y) : (memref<4xf32>) -> ()
  return
}

// -----

// A kernel that reads its own result between two loops is not divided; its loops are sequential.

// CHECK-LABEL: func.func private @negative_reads_between(
// CHECK-NOT: scf.forall
// CHECK-NOT: stepwell.phases
func.func private @negative_reads_between(%x: memref<4xf32> {llvm.noalias}) attributes {stepwell.kernel = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (4) {
    memref.store %zero, %x[%i] : memref<4xf32>
  }
  %0 = memref.load %x[%c0] : memref<4xf32>
  scf.forall (%i) in (4) {
    memref.store %0, %x[%i] : memref<4xf32>
  }
  return
}
