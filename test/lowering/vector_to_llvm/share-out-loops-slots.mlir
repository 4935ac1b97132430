// RUN: stepwell-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-share-out-loops)' | FileCheck %s

// A call has its own slot of the workspace, with the index of its first block. A loop has no more blocks than slots.

// CHECK-LABEL: func.func private @slots(
// CHECK-SAME: %[[WORK:[^:]*]]: memref<512xi8> {llvm.noalias}, %[[FIRST:[^:]*]]: index, %[[LAST:[^:]*]]: index)
// CHECK-SAME: stepwell.phases = array<i64: 2>
// CHECK: %[[FROM:.*]] = arith.divui
// CHECK: %[[TO:.*]] = arith.divui
// CHECK: scf.for %{{.*}} = %[[FROM]] to %[[TO]]
// CHECK: %[[OFFSET:.*]] = arith.muli %[[FIRST]], %c256
// CHECK: %[[START:.*]] = arith.addi %c0{{.*}}, %[[OFFSET]]
// CHECK: memref.view %[[WORK]][%[[START]]][]
func.func private @slots(%x: memref<5xf32> {llvm.noalias}, %work: memref<512xi8> {llvm.noalias})
    attributes {stepwell.kernel = {}} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (5) {
    %c0 = arith.constant 0 : index
    %0 = memref.view %work[%c0][] {stepwell.slot_bytes = 256 : i64} : memref<512xi8> to memref<64xf32>
    memref.store %zero, %0[%i] : memref<64xf32>
    %1 = memref.load %0[%i] : memref<64xf32>
    memref.store %1, %x[%i] : memref<5xf32>
  } {stepwell.slots = 2 : i64, stepwell.slot_bytes = 256 : i64}
  return
}
