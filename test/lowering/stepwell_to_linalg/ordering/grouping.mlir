// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// CHECK-LABEL: func.func private @sort_rows(
// CHECK: scf.while
// CHECK: scf.for
// CHECK: scf.while
func.func private @sort_rows(%x: tensor<9x3xf32>) -> tensor<9xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.sort_rows"(%x) : (tensor<9x3xf32>) -> tensor<9xi64>
  return %0 : tensor<9xi64>
}

// NaN is not equal to NaN in rows.

// CHECK-LABEL: func.func private @rows(
// CHECK: arith.cmpf oeq
func.func private @rows(%x: tensor<9x3xf32>, %o: tensor<9xi64>) -> tensor<9xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.number_groups"(%x, %o) {is_sorted = true} : (tensor<9x3xf32>, tensor<9xi64>) -> tensor<9xi64>
  return %0 : tensor<9xi64>
}

// CHECK-LABEL: func.func private @elements(
// CHECK-NOT: arith.cmpf oeq
// CHECK: return
func.func private @elements(%x: tensor<9xf32>, %o: tensor<9xi64>) -> tensor<9xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.number_groups"(%x, %o) {is_sorted = true} : (tensor<9xf32>, tensor<9xi64>) -> tensor<9xi64>
  return %0 : tensor<9xi64>
}

// Numbers of groups that do not exist are ignored.

// CHECK-LABEL: func.func private @sizes(
// CHECK: arith.cmpi ult
// CHECK: scf.if
func.func private @sizes(%g: tensor<9xi64>) -> tensor<9xi64> attributes {stepwell.kernel = {class = "sorting"}} {
  %0 = "stepwell.summarize_groups"(%g) {fact = "size"} : (tensor<9xi64>) -> tensor<9xi64>
  return %0 : tensor<9xi64>
}
