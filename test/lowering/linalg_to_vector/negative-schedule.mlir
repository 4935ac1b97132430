// RUN: not stepwell-opt %s --pass-pipeline='builtin.module(stepwell-apply-schedules{target=x86-64-v3})' 2>&1 | FileCheck %s

// CHECK: error: {{.*}}kernel @negative_missing (Relu_7): there is no transform.named_sequence @nowhere
func.func private @negative_missing(%out: tensor<16xf32>) -> tensor<16xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = @nowhere} {
  return %out : tensor<16xf32>
} loc("Relu_7")
