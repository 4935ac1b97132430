// RUN: stepwell-opt %s --pass-pipeline="builtin.module(func.func(cse,canonicalize{max-iterations=3}),stepwell-dce)" | FileCheck %s
// RUN: stepwell-opt %s -cse --canonicalize="max-iterations=3 top-down=false" --stepwell-dce | FileCheck %s
// RUN: stepwell-opt %s --canonicalize=max-iterations=3 -cse -stepwell-dce -o %t && FileCheck %s < %t
// RUN: stepwell-opt --pass-pipeline 'builtin.module(any(cse),stepwell-dce)' < %s | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(func.func(cse), stepwell-dce)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=DUMP

// Upstream and Python passes mix in one pipeline, at any nesting.

// DUMP: Pass Manager with 2 passes:
// DUMP-NEXT: builtin.module(func.func(cse),stepwell-dce)

// CHECK-LABEL: func.func @common
func.func @common(%a: i32, %x: tensor<3xf32>) -> i32 {
  // CHECK: %[[SUM:.+]] = arith.addi
  // CHECK-NOT: stepwell.exp
  // CHECK: arith.muli %[[SUM]], %[[SUM]]
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %unread = "stepwell.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
