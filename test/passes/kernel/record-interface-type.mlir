// RUN: not stepwell-opt %s --stepwell-record-interface 2>&1 | FileCheck %s

// CHECK: a result with 'stepwell.count' must be a tensor<i64>, not tensor<i32>
func.func @main(%x: tensor<4xi1> {stepwell.name = "x"})
    -> (tensor<1x4xi64> {stepwell.name = "y"}, tensor<i32> {stepwell.count = array<i64: 0, 1>}) {
  %0 = "stepwell.nonzero"(%x) : (tensor<4xi1>) -> tensor<1x4xi64>
  %1 = "stepwell.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  return %0, %1 : tensor<1x4xi64>, tensor<i32>
}
