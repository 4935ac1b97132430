// RUN: stepwell-opt %s --stepwell-record-alignment | FileCheck %s

// A part that begins 20 bytes into a tensor is aligned to 4 bytes; one that begins 64 bytes into it, to 16.

// CHECK: func.func private @k(%{{.+}}: tensor<3x5xf32> {stepwell.alignment = 4 : i64}) -> tensor<3x5xf32>
// CHECK-LABEL: func.func private @negative_aligned(
// CHECK-NOT: stepwell.alignment
module {
  func.func @main(%x: tensor<4x5xf32>, %y: tensor<4x16xf32>) -> (tensor<3x5xf32>, tensor<3x16xf32>) {
    %0 = tensor.extract_slice %x[1, 0] [3, 5] [1, 1] : tensor<4x5xf32> to tensor<3x5xf32>
    %1 = call @k(%0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %2 = tensor.extract_slice %y[1, 0] [3, 16] [1, 1] : tensor<4x16xf32> to tensor<3x16xf32>
    %3 = call @negative_aligned(%2) : (tensor<3x16xf32>) -> tensor<3x16xf32>
    return %1, %3 : tensor<3x5xf32>, tensor<3x16xf32>
  }
  func.func private @k(%x: tensor<3x5xf32>) -> tensor<3x5xf32>
      attributes {stepwell.kernel = {bytes = 120 : i64, class = "elementwise", flops = 15 : i64}} {
    %0 = "stepwell.relu"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func private @negative_aligned(%x: tensor<3x16xf32>) -> tensor<3x16xf32>
      attributes {stepwell.kernel = {bytes = 384 : i64, class = "elementwise", flops = 48 : i64}} {
    %0 = "stepwell.relu"(%x) : (tensor<3x16xf32>) -> tensor<3x16xf32>
    return %0 : tensor<3x16xf32>
  }
}
