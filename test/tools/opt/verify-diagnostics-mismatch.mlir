// RUN: not stepwell-opt %s --verify-diagnostics 2>&1 | FileCheck %s

// CHECK: mismatch.mlir:[[# @LINE + 2]]:4: error: 'error' diagnostic emitted when expecting a 'warning'
// CHECK: mismatch.mlir:[[# @LINE + 3]]:4: error: expected remark "no such remark" was not produced
// expected-warning@+1 {{custom op 'unknown_op' is unknown}}
unknown_op
// expected-remark@below {{no such remark}}
