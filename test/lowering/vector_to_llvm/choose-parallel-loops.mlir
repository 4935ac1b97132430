// RUN: stepwell-opt %s -allow-unregistered-dialect --pass-pipeline='builtin.module(stepwell-choose-parallel-loops{min-microseconds=10})' | FileCheck %s

// The outermost loop of a large kernel stays parallel.

// CHECK-LABEL: func.func @large
// CHECK: scf.forall
// CHECK: scf.for %
// CHECK: "test.use"
func.func @large() attributes {stepwell.kernel = {flops = 3000000 : i64, bytes = 1000 : i64}} {
  scf.forall (%i) in (4) {
    scf.forall (%j) in (8) {
      "test.use"(%i, %j) : (index, index) -> ()
    }
  }
  return
}

// A kernel without a declared cost counts as large.

// CHECK-LABEL: func.func @unknown
// CHECK: scf.forall
func.func @unknown() {
  scf.forall (%i) in (4) {
    "test.use"(%i) : (index) -> ()
  }
  return
}

// CHECK-LABEL: func.func @negative_small
// CHECK-NOT: scf.forall
// CHECK: scf.for %
func.func @negative_small() attributes {stepwell.kernel = {flops = 3000 : i64, bytes = 1000 : i64}} {
  scf.forall (%i) in (4) {
    "test.use"(%i) : (index) -> ()
  }
  return
}
