// RUN: stepwell-opt %s --stepwell-lift-parameters | FileCheck %s
// RUN: stepwell-opt %s --stepwell-lift-parameters="only=w" | FileCheck %s --check-prefix=ONLY
// RUN: not stepwell-opt %s --stepwell-lift-parameters="only=v" 2>&1 | FileCheck %s --check-prefix=ERROR

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32>, %[[W:.+]]: tensor<4xf32> {stepwell.dims = [4], stepwell.name = "w"},
// CHECK-SAME: %[[B:.+]]: tensor<4xf32> {stepwell.dims = [4], stepwell.name = "b"})
// CHECK-NEXT: %[[S:.+]] = "stepwell.mul"(%[[X]], %[[W]])
// CHECK-NEXT: %[[T:.+]] = "stepwell.add"(%[[S]], %[[B]])
// CHECK-NEXT: "stepwell.mul"(%[[T]], %[[W]])

// ONLY-LABEL: func.func @main
// ONLY-SAME: stepwell.name = "w"
// ONLY-NEXT: "stepwell.parameter"() {dtype = f32, name = "b"
// ONLY-NEXT: "stepwell.mul"

// ERROR: there is no parameter 'v'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %again = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
  %0 = "stepwell.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.mul"(%1, %again) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
