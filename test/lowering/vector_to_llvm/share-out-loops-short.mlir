// RUN: stepwell-opt %s -split-input-file --stepwell-share-out-loops="target=x86-64-v4" | FileCheck %s

// A program of a few microseconds is distributed to threads that are awake.

// CHECK: module attributes {stepwell.is_short}
// CHECK-LABEL: func.func private @short
// CHECK: call @short({{.*}}, {{.*}}, {{.*}}) {stepwell.shared}
func.func private @short(%x: memref<4xf32> {llvm.noalias})
    attributes {stepwell.kernel = {flops = 10000000 : i64, bytes = 16 : i64}} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (4) {
    memref.store %zero, %x[%i] : memref<4xf32>
  }
  return
}
func.func @main(%x: memref<4xf32>) {
  func.call @short(%x) : (memref<4xf32>) -> ()
  return
}

// -----

// A shorter program is not distributed.

// CHECK-LABEL: func.func private @negative_tiny
// CHECK: call @negative_tiny({{.*}}, {{.*}}, {{.*}}) : (
func.func private @negative_tiny(%x: memref<4xf32> {llvm.noalias})
    attributes {stepwell.kernel = {flops = 500000 : i64, bytes = 16 : i64}} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (4) {
    memref.store %zero, %x[%i] : memref<4xf32>
  }
  return
}
func.func @main(%x: memref<4xf32>) {
  func.call @negative_tiny(%x) : (memref<4xf32>) -> ()
  return
}

// -----

// A longer program wakes threads.

// CHECK-NOT: stepwell.is_short
// CHECK-LABEL: func.func private @negative_long
// CHECK: call @negative_long({{.*}}, {{.*}}, {{.*}}) {stepwell.shared}
func.func private @negative_long(%x: memref<4xf32> {llvm.noalias})
    attributes {stepwell.kernel = {flops = 100000000 : i64, bytes = 16 : i64}} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (4) {
    memref.store %zero, %x[%i] : memref<4xf32>
  }
  return
}
func.func @main(%x: memref<4xf32>) {
  func.call @negative_long(%x) : (memref<4xf32>) -> ()
  return
}
