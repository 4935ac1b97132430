// RUN: stepwell-opt %s --split-input-file --stepwell-record-interface | FileCheck %s

// An input that is appended to is listed with its output, or -1 if that is not returned; the others are not listed.
// CHECK:      module attributes {stepwell.interface = {
// CHECK-SAME:   appended = [array<i64: 1, 1, 0, 1>, array<i64: 2, -1, 2>],
func.func @main(%x: tensor<4xf32>, %key: tensor<7x4xf32> {stepwell.layout = array<i64: 0, 1>}, %value: tensor<7x4xf32> {stepwell.layout = array<i64: 2>})
    -> (tensor<4xf32>, tensor<8x4xf32> {stepwell.appended_to = 1 : i64}) {
  %0 = "stepwell.concat"(%key, %value) {axis = 0 : i64} : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<14x4xf32>
  %1 = "stepwell.slice"(%0) {starts = array<i64: 0, 0>, stops = array<i64: 8, 4>, steps = array<i64: 1, 1>} : (tensor<14x4xf32>) -> tensor<8x4xf32>
  return %x, %1 : tensor<4xf32>, tensor<8x4xf32>
}

// -----

// Without such inputs the interface has no list of them.
// CHECK:      module attributes {stepwell.interface = {
// CHECK-NOT:    appended
// CHECK:      func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
