// RUN: stepwell-opt %s --stepwell-divide-loops | FileCheck %s
// RUN: stepwell-opt %s --stepwell-divide-loops="length=8" | FileCheck %s --check-prefix=EVEN

// The iterations that are left over are a loop of their own.
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[STATE:.*]] = %arg1) -> (tensor<4xf32>)
// CHECK:   scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %[[STATE]]) -> (tensor<4xf32>)
// CHECK:     "stepwell.row"(%{{.*}}) : (tensor<5x4xf32>, tensor<i64>) -> tensor<4xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<4xf32>)
// CHECK:     "stepwell.row"(%{{.*}}) : (tensor<4x4xf32>, tensor<i64>) -> tensor<4xf32>

// EVEN-COUNT-2: scf.for
// EVEN-NOT: scf.for
func.func @main(%x: tensor<24x4xf32>, %h0: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c24 = arith.constant 24 : index
  %r = scf.for %i = %c0 to %c24 step %c1 iter_args(%h = %h0) -> (tensor<4xf32>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%x, %t) : (tensor<24x4xf32>, tensor<i64>) -> tensor<4xf32>
    %1 = "stepwell.mul"(%h, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.sin"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %2 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
