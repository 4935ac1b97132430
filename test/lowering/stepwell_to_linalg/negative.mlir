// RUN: not stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' 2>&1 | FileCheck %s

// CHECK: error: {{.*}}no rule lowers 'stepwell.shape_of' to linalg
func.func private @negative_no_rule(%x: tensor<4x8xf32>) -> tensor<2xi64> attributes {stepwell.kernel = {class = "movement"}} {
  %0 = "stepwell.shape_of"(%x) : (tensor<4x8xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}
