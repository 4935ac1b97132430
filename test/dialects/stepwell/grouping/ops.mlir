// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @grouping
func.func @grouping(%x: tensor<7x2xf32>) {
  // CHECK: "stepwell.sort_rows"(%{{[^ ,)]+}}) : (tensor<7x2xf32>) -> tensor<7xi64>
  %0 = "stepwell.sort_rows"(%x) : (tensor<7x2xf32>) -> tensor<7xi64>
  // CHECK: "stepwell.number_groups"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) {is_sorted = false} : (tensor<7x2xf32>, tensor<7xi64>) -> tensor<7xi64>
  %1 = "stepwell.number_groups"(%x, %0) {is_sorted = false} : (tensor<7x2xf32>, tensor<7xi64>) -> tensor<7xi64>
  // CHECK: "stepwell.summarize_groups"(%{{[^ ,)]+}}) {fact = "size"} : (tensor<7xi64>) -> tensor<7xi64>
  %2 = "stepwell.summarize_groups"(%1) {fact = "size"} : (tensor<7xi64>) -> tensor<7xi64>
  return
}
