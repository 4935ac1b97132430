// RUN: stepwell-opt %s --split-input-file --stepwell-form-kernels | FileCheck %s

// A contraction is fused with the elementwise ops after it, as long as one value leaves the group.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<4x8xf32>, %[[W:[^:]+]]: tensor<8x2xf32>, %[[B:[^:]+]]: tensor<2xf32>)
// CHECK:         %[[R:.+]] = call @[[K:[^(]+]](%[[X]], %[[W]], %[[B]])
// CHECK-SAME:      stepwell.ops = ["MatMul_0", "Add_1", "Relu_2"]
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @[[K]]
// CHECK-SAME:    class = "contraction"
// CHECK-SAME:    flops = 144
// CHECK:         stepwell.matmul
// CHECK-NEXT:    stepwell.add
// CHECK-NEXT:    stepwell.relu
// CHECK-NEXT:    return
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %b: tensor<2xf32>) -> tensor<4x2xf32> {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("MatMul_0")
  %1 = "stepwell.add"(%0, %b) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("Add_1")
  %2 = "stepwell.relu"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32> loc("Relu_2")
  return %2 : tensor<4x2xf32>
}

// -----

// An intermediate value with other readers escapes: the chain ends there.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.+]] = call @[[FIRST:[^(]+]](
// CHECK:         %[[B:.+]] = call @[[SECOND:[^(]+]](%[[A]])
// CHECK:         return %[[A]], %[[B]]
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = "stepwell.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %1 = "stepwell.relu"(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// A value that forks and joins again inside the group does not leave it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[R:.+]] = call @
// CHECK-NOT:     call
// CHECK:         return %[[R]]
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.neg"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "stepwell.add"(%0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A reduction is also fused with its producers if they have no other reader; a scalar is part of the kernel's code.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<4x8xf32>)
// CHECK:         call @[[K:[^(]+]](%[[X]])
// CHECK:       func.func private @[[K]](%{{.+}}: tensor<4x8xf32>)
// CHECK-SAME:    class = "reduction"
// CHECK:         stepwell.constant
// CHECK:         stepwell.mul
// CHECK:         stepwell.softmax
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = "stepwell.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "stepwell.mul"(%x, %c) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = "stepwell.softmax"(%0) {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// Nested concatenations are one kernel; a reshape is not a kernel.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.+]] = call @[[K:[^(]+]](
// CHECK-NEXT:    "stepwell.reshape"(%[[C]])
// CHECK:       func.func private @[[K]]
// CHECK-COUNT-2: stepwell.concat
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<7x1xf32> {
  %0 = "stepwell.concat"(%x, %y) {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %1 = "stepwell.concat"(%0, %x) {axis = 0 : i64} : (tensor<5xf32>, tensor<2xf32>) -> tensor<7xf32>
  %2 = "stepwell.reshape"(%1) {shape = array<i64: 7, 1>} : (tensor<7xf32>) -> tensor<7x1xf32>
  return %2 : tensor<7x1xf32>
}

// -----

// An addition of an enlarged image reads the small image.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<1x4x4x8xf32>, %[[Y:[^:]+]]: tensor<1x2x2x8xf32>)
// CHECK:         %[[R:.+]] = call @[[K:[^(]+]](%[[Y]], %[[X]])
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @[[K]]
// CHECK-SAME:    class = "elementwise"
func.func @main(%x: tensor<1x4x4x8xf32>, %y: tensor<1x2x2x8xf32>) -> tensor<1x4x4x8xf32> {
  %0 = "stepwell.resize"(%y) {sizes = array<i64: 1, 4, 4, 8>, scales = dense<[1.0, 2.0, 2.0, 1.0]> : tensor<4xf32>, mode = "nearest", coordinates = "asymmetric", nearest = "floor"} : (tensor<1x2x2x8xf32>) -> tensor<1x4x4x8xf32>
  %1 = "stepwell.add"(%x, %0) : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  return %1 : tensor<1x4x4x8xf32>
}

// -----

// A transpose reads the rows of a slice where they lie.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call @
// CHECK-NOT:     call @
// CHECK:       func.func private
// CHECK:         stepwell.slice
// CHECK-NEXT:    stepwell.reshape
// CHECK-NEXT:    stepwell.transpose
func.func @main(%x: tensor<10x6xf32>) -> tensor<2x6x4xf32> {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 8, 6>, steps = array<i64: 1, 1>} : (tensor<10x6xf32>) -> tensor<8x6xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 4, 6>} : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x6xf32>) -> tensor<2x6x4xf32>
  return %2 : tensor<2x6x4xf32>
}

// -----

// A slice with a step is copied, and so is one that others read.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: call @
func.func @main(%x: tensor<10x6xf32>) -> (tensor<6x5xf32>, tensor<6x8xf32>, tensor<8x6xf32>) {
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 10, 6>, steps = array<i64: 2, 1>} : (tensor<10x6xf32>) -> tensor<5x6xf32>
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %2 = "stepwell.slice"(%x) {starts = array<i64: 0, 0>, stops = array<i64: 8, 6>, steps = array<i64: 1, 1>} : (tensor<10x6xf32>) -> tensor<8x6xf32>
  %3 = "stepwell.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<8x6xf32>) -> tensor<6x8xf32>
  return %1, %3, %2 : tensor<6x5xf32>, tensor<6x8xf32>, tensor<8x6xf32>
}
