// RUN: stepwell-opt %s --stepwell-record-interface | FileCheck %s

// CHECK:      module attributes {stepwell.interface = {
// CHECK-SAME:   guards = ["sr is not 8000"]
// CHECK-SAME:   inputs = [{name = "x", type = tensor<4xf32>}, {name = "input1", type = tensor<i64>}]
// CHECK-SAME:   outputs = [{name = "y", type = tensor<4xi1>}]
func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}, %n: tensor<i64>)
    -> (tensor<4xi1> {stepwell.name = "y"}, tensor<i1> {stepwell.guard = "sr is not 8000"}) {
  %0 = "stepwell.less"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = "stepwell.equal"(%n, %n) : (tensor<i64>, tensor<i64>) -> tensor<i1>
  return %0, %1 : tensor<4xi1>, tensor<i1>
}
