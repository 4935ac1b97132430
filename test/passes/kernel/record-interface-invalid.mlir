// RUN: not stepwell-opt %s --stepwell-record-interface 2>&1 | FileCheck %s

// CHECK: 'stepwell.count' must list pairs of an output and its dimension
func.func @main(%x: tensor<4xi1> {stepwell.name = "x"})
    -> (tensor<1x4xi64> {stepwell.name = "y"}, tensor<i64> {stepwell.count = array<i64: 0, 2>}) {
  %0 = "stepwell.nonzero"(%x) : (tensor<4xi1>) -> tensor<1x4xi64>
  %1 = "stepwell.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  return %0, %1 : tensor<1x4xi64>, tensor<i64>
}
