// RUN: stepwell-opt %s --split-input-file --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// Long rows are sorted by the digits in which their elements differ, from the lowest. Elements are counted, and moved,
// from both ends at once, and copied back.

// CHECK-LABEL: func.func private @long(
// CHECK:      %[[DIFFERING:.*]] = scf.for {{.*}} -> (i32)
// CHECK:        arith.xori
// CHECK-NEXT:   arith.ori
// CHECK:      arith.andi %[[DIFFERING]], %c255_i32
// CHECK:      scf.if
// CHECK-COUNT-5: scf.for
// CHECK:        scf.yield
// CHECK:      } else {
// CHECK:      arith.shrui %[[DIFFERING]], %c8_i32
// CHECK:      arith.shrui %[[DIFFERING]], %c24_i32
// CHECK:      return
func.func private @long(%x: tensor<200xf32>) -> tensor<200xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 200 : i64, largest = false} : (tensor<200xf32>) -> tensor<200xi64>
  return %0 : tensor<200xi64>
}

// -----

// In short rows, the elements before each one are counted.

// CHECK-LABEL: func.func private @negative_short(
// CHECK-NOT:   scf.if
// CHECK:       linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]}
// CHECK-NOT:   scf.if
func.func private @negative_short(%x: tensor<100xf32>) -> tensor<100xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.top_k"(%x) {k = 100 : i64, largest = false} : (tensor<100xf32>) -> tensor<100xi64>
  return %0 : tensor<100xi64>
}
