// RUN: stepwell-opt %s --split-input-file --stepwell-erase-init | FileCheck %s

// CHECK-NOT:   @init
// CHECK:       func.func @main
func.func @init(%w: tensor<4xf32> {stepwell.name = "w"}) -> (tensor<4xf32> {stepwell.name = "w.exp"}) {
  %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Other functions stay; without @init, nothing happens.
// CHECK:       func.func @negative_initial
func.func @negative_initial() {
  return
}
