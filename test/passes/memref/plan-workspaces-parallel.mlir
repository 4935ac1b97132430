// RUN: stepwell-opt %s -allow-unregistered-dialect -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-plan-memory,stepwell-plan-workspaces,canonicalize,cse)' | FileCheck %s

// A parallel loop has a slot for each iteration, eight at most; temporaries outside the loop have one.

// CHECK-LABEL: func.func private @parallel(
// CHECK-SAME: %[[WORK:[a-z0-9]*]]: memref<3584xi8> {llvm.noalias}) attributes {stepwell.workspace_bytes = 3584 : i64}
// CHECK-DAG: %[[A:.*]] = memref.view %[[WORK]][%c0][] : memref<3584xi8> to memref<50xf32>
// CHECK: scf.forall (%{{.*}}) in (4) {
// CHECK:   %[[B:.*]] = memref.view %[[WORK]][%c256][] {stepwell.slot_bytes = 320 : i64} : memref<3584xi8> to memref<50xf32>
// CHECK:   %[[C:.*]] = memref.view %[[WORK]][%c512][] {stepwell.slot_bytes = 320 : i64} : memref<3584xi8> to memref<3xi8>
// CHECK:   "test.use"(%[[A]], %[[B]], %[[C]])
// CHECK: } {stepwell.slot_bytes = 320 : i64, stepwell.slots = 4 : i64}
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (3, 4) {
// CHECK:   scf.forall
// CHECK:     memref.view %[[WORK]][%c1536][] {stepwell.slot_bytes = 256 : i64} : memref<3584xi8> to memref<50xf32>
// CHECK: } {stepwell.slot_bytes = 256 : i64, stepwell.slots = 8 : i64}
func.func private @parallel(%out: tensor<4xf32>) -> tensor<4xf32> {
  %a = memref.alloc() : memref<50xf32>
  scf.forall (%i) in (4) {
    %b = memref.alloc() : memref<50xf32>
    %c = memref.alloc() : memref<3xi8>
    "test.use"(%a, %b, %c) : (memref<50xf32>, memref<50xf32>, memref<3xi8>) -> ()
  }
  scf.forall (%i, %j) in (3, 4) {
    scf.forall (%k) in (2) {
      %d = memref.alloc() : memref<50xf32>
      "test.use"(%d) : (memref<50xf32>) -> ()
    }
  }
  return %out : tensor<4xf32>
}
func.func @main() -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %0 = func.call @parallel(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A workspace so large that only one slot fits.

// CHECK-LABEL: func.func private @large(
// CHECK-SAME: stepwell.workspace_bytes = 16777216 : i64
// CHECK: stepwell.slots = 1 : i64
func.func private @large(%out: tensor<4xf32>) -> tensor<4xf32> {
  scf.forall (%i) in (4) {
    %a = memref.alloc() : memref<4194304xf32>
    "test.use"(%a) : (memref<4194304xf32>) -> ()
  }
  return %out : tensor<4xf32>
}
func.func @main() -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %0 = func.call @large(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A value that one part of a kernel leaves on the stack for a parallel loop would be lost if threads shared that loop.

// CHECK-LABEL: func.func private @shared(
// CHECK-SAME: %[[WORK:[a-z0-9]*]]: memref<256xi8> {llvm.noalias}) attributes {stepwell.workspace_bytes = 256 : i64}
// CHECK: %[[OWN:.*]] = memref.alloca() : memref<4xf32>
// CHECK: %[[A:.*]] = memref.view %[[WORK]][%c0][] : memref<256xi8> to memref<50xf32>
// CHECK: scf.forall
// CHECK:   memref.alloca() : memref<50xf32>
// CHECK:   "test.use"(%{{.*}}) : (memref<5x10xf32>) -> ()
// CHECK: "test.use"(%[[A]], %[[OWN]])
func.func private @shared(%out: tensor<4xf32>) -> tensor<4xf32> {
  %own = memref.alloca() : memref<4xf32>
  %a = memref.alloca() : memref<50xf32>
  %view = memref.expand_shape %a [[0, 1]] output_shape [5, 10] : memref<50xf32> into memref<5x10xf32>
  scf.forall (%i) in (4) {
    %b = memref.alloca() : memref<50xf32>
    "test.use"(%b) : (memref<50xf32>) -> ()
    "test.use"(%view) : (memref<5x10xf32>) -> ()
  }
  "test.use"(%a, %own) : (memref<50xf32>, memref<4xf32>) -> ()
  return %out : tensor<4xf32>
}
func.func @main() -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %0 = func.call @shared(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
