// RUN: stepwell-opt %s --stepwell-infer-shapes --stepwell-fold-constants --stepwell-canonicalize --stepwell-bind-ranges | FileCheck %s

// Places of an image that attend to each other are moved together: one loop ends with them.
// CHECK-LABEL: func.func @main
// CHECK:       %[[PLACES:.+]] = "stepwell.gather"(%{{.+}}) {axis = 2 : i64{{.*}}} : (tensor<1x2x48x8xf32>, tensor<48xi64>)
// CHECK:       "stepwell.attention"(%[[PLACES]]
module attributes {stepwell.ranges = {h = [1, 6, 1], w = [1, 8, 1]}} {
  func.func @main(%x: tensor<1x2x?x?x8xf32> {stepwell.dims = [1, 2, "h", "w", 8]}) -> tensor<1x2x?x8xf32> {
    %0 = "stepwell.reshape"(%x) {shape = [1, 2, "h * w", 8]} : (tensor<1x2x?x?x8xf32>) -> tensor<1x2x?x8xf32>
    %1 = "stepwell.attention"(%0, %0, %0) {scale = 1.0 : f64}
      : (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
    return %1 : tensor<1x2x?x8xf32>
  }
}
