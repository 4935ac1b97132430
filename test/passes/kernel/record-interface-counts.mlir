// RUN: stepwell-opt %s --stepwell-record-interface | FileCheck %s

// CHECK:      module attributes {stepwell.interface = {
// CHECK-SAME:   counts = [array<i64: 0, 1>]
// CHECK-SAME:   outputs = [{name = "y", type = tensor<1x4xi64>}]
func.func @main(%x: tensor<4xi1> {stepwell.name = "x"})
    -> (tensor<1x4xi64> {stepwell.name = "y"}, tensor<i64> {stepwell.count = array<i64: 0, 1>}) {
  %0 = "stepwell.nonzero"(%x) : (tensor<4xi1>) -> tensor<1x4xi64>
  %1 = "stepwell.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  return %0, %1 : tensor<1x4xi64>, tensor<i64>
}
