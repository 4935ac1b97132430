// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-eliminate-empty-tensors)' | FileCheck %s

// A value computed in an empty tensor and then inserted is computed in place.

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

// CHECK-LABEL: func.func private @negative_without_empty(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[OUT:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = linalg.exp ins(%[[X]] : tensor<4xf32>) outs(%[[OUT]] : tensor<4xf32>)
// CHECK-NEXT: return %[[Y]]
func.func private @negative_without_empty(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %1 = linalg.exp ins(%x : tensor<4xf32>) outs(%out : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Only parts of the result are cut from the empty tensor, so it is not inserted as a whole.

// CHECK-LABEL: func.func private @negative_with_parts(
// CHECK: tensor.empty() : tensor<8xf32>
// CHECK: tensor.insert_slice
func.func private @negative_with_parts(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.exp ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %2 = tensor.extract_slice %1[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %3 = tensor.insert_slice %2 into %out[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %3 : tensor<8xf32>
}

// The result of a loop over an empty tensor may be inserted too.

// CHECK-LABEL: func.func private @through_loop(
// CHECK: %[[PLACE:.*]] = tensor.extract_slice %{{.*}}[2] [4] [1]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[PLACE]])
func.func private @through_loop(%x: f32, %out: tensor<8xf32>, %start: index, %end: index, %step: index)
    -> tensor<8xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = scf.for %i = %start to %end step %step iter_args(%t = %0) -> (tensor<4xf32>) {
    %3 = tensor.insert %x into %t[%i] : tensor<4xf32>
    scf.yield %3 : tensor<4xf32>
  }
  %2 = tensor.insert_slice %1 into %out[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %2 : tensor<8xf32>
}
