// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-eliminate-empty-tensors)' | FileCheck %s

// What is computed in an empty tensor and then inserted is computed in its place.

// CHECK-LABEL: func.func private @with_empty(
// CHECK-SAME: %{{.*}}: tensor<4xf32>, %[[OUT:.*]]: tensor<8xf32>)
// CHECK: %[[PLACE:.*]] = tensor.extract_slice %[[OUT]][2] [4] [1]
// CHECK: linalg.exp {{.*}} outs(%[[PLACE]] : tensor<4xf32>)
func.func private @with_empty(%x: tensor<4xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.exp ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.insert_slice %1 into %out[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %2 : tensor<8xf32>
}

// A function without empty tensors stays as it is.

// CHECK-LABEL: func.func private @without_empty(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[OUT:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = linalg.exp ins(%[[X]] : tensor<4xf32>) outs(%[[OUT]] : tensor<4xf32>)
// CHECK-NEXT: return %[[Y]]
func.func private @without_empty(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %1 = linalg.exp ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
