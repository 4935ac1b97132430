// RUN: not stepwell-opt %s --stepwell-differentiate 2>&1 | FileCheck %s
// RUN: not stepwell-opt %s --stepwell-differentiate="wrt=v" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not stepwell-opt %s --stepwell-differentiate="outputs=vector" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not stepwell-opt %s --stepwell-differentiate="wrt=i" 2>&1 | FileCheck %s --check-prefix=INTEGER

// CHECK: 'stepwell.scatter' of 'update' cannot be differentiated: a number of updates that depends on data is not
// NAME: there is no input 'v'; there are x, i
// VECTOR: output 'vector' has the shape [4]: only a single number has a gradient
// INTEGER: input 'i' is tensor<2xi64>, and only floating point has a gradient
func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}, %i: tensor<2xi64> {stepwell.name = "i"})
    -> (tensor<f32>, tensor<4xf32> {stepwell.name = "vector"}) {
  %c = "stepwell.constant"() {value = dense<2.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %n = "stepwell.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %0 = "stepwell.scatter"(%x, %i, %c, %n) {axis = 0 : i64, reduction = "mul"}
    : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<i64>) -> tensor<4xf32> loc("update")
  %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<4xf32>
}
