// RUN: stepwell-opt %s --stepwell-infer-shapes --stepwell-fold-constants --stepwell-canonicalize --stepwell-bind-ranges | FileCheck %s

// The lesser of a size in steps and a number is neither: the step's limits do not count for the size.
// CHECK: stepwell.table = [{{.*}}min{{.*}}5
// CHECK-LABEL: func.func @main
// CHECK:       -> (tensor<5x8xf32>
module attributes {stepwell.ranges = {n = [3, 11, 4]}} {
  func.func @main(%x: tensor<?xf32> {stepwell.dims = ["n"]}, %y: tensor<1x8xf32>) -> tensor<?x8xf32> {
    %0 = "stepwell.broadcast_to"(%y) {shape = ["min(5, n)", 8]} : (tensor<1x8xf32>) -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
}
