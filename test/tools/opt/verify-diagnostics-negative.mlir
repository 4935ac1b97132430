// RUN: not stepwell-opt %s --split-input-file --verify-diagnostics 2>&1 | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --verify-diagnostics=only-expected --cse -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONLY --allow-empty

// ONLY-NOT: unexpected

// CHECK: verify-diagnostics-negative.mlir:[[# @LINE + 5]]:1: error: unexpected error: custom op 'unknown_op' is unknown
// -----

// CHECK-NEXT: {{^}}unknown_op
// CHECK-NEXT: {{^}}^
unknown_op
