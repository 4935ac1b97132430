// RUN: stepwell-opt %s -split-input-file --pass-pipeline='builtin.module(stepwell-plan-memory,canonicalize,cse)' | FileCheck %s

// A chain of kernels: outputs are written in place, a reshape is another view, the parameter an argument.

// CHECK: module attributes {stepwell.arena_bytes = 64 : i64, stepwell.arena_lower_bound = 64 : i64
// CHECK-SAME: stepwell.lifetimes = [{bytes = 48 : i64, first = 1 : i64, last = 2 : i64, name = "k", offset = 0 : i64}]
// CHECK-SAME: stepwell.parameters = [{name = "w", type = tensor<12xf32>}]
// CHECK-LABEL: func.func private @k(
// CHECK-SAME: %[[IN0:.*]]: memref<12xf32> {llvm.noalias, llvm.readonly}, %[[IN1:.*]]: memref<12xf32> {llvm.noalias, llvm.readonly}, %[[OUT:.*]]: memref<12xf32> {llvm.noalias})
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[OUT]] restrict writable
// CHECK: bufferization.materialize_in_destination %[[T]] in restrict writable %[[OUT]]
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<3x4xf32> {stepwell.name = "x"}, %[[Y:.*]]: memref<12xf32> {stepwell.name = "y"}, %[[W:.*]]: memref<12xf32> {stepwell.name = "w"}, %[[ARENA:.*]]: memref<64xi8>)
// CHECK: %[[FLAT:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [12], strides: [1]
// CHECK: %[[TEMP:.*]] = memref.view %[[ARENA]][%{{.*}}][] {{.*}}: memref<64xi8> to memref<12xf32>
// CHECK: call @k(%[[FLAT]], %[[W]], %[[TEMP]]) {stepwell.step = 1 : i64}
// CHECK: call @k(%[[TEMP]], %[[W]], %[[Y]]) {stepwell.step = 2 : i64}
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @k(%x: tensor<12xf32>, %w: tensor<12xf32>, %out: tensor<12xf32>) -> tensor<12xf32> {
  return %out : tensor<12xf32>
}
func.func @main(%x: tensor<3x4xf32> {stepwell.name = "x"}) -> (tensor<12xf32> {stepwell.name = "y"}) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 12>, dtype = f32} : () -> tensor<12xf32>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
  // One empty tensor for two kernels still becomes two buffers.
  %d = tensor.empty() : tensor<12xf32>
  %0 = func.call @k(%flat, %w, %d) : (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
  %1 = func.call @k(%0, %w, %d) : (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// -----

// The memory of the first temporary is reused for the third.

// CHECK: stepwell.arena_bytes = 128 : i64
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
// CHECK: %[[A:.*]] = memref.view %[[ARENA:.*]][%[[C0]]]
// CHECK: call @k(%{{.*}}, %[[A]])
// CHECK: %[[B:.*]] = memref.view %[[ARENA]][%[[C64]]]
// CHECK: call @k(%[[A]], %[[B]])
// CHECK: %[[C:.+]] = memref.view %{{.+}}[%c0{{.*}}][] {stepwell.buffer = 2 : i64}
// CHECK: call @k(%[[B]], %[[C]])
// CHECK: call @k(%[[C]], %{{.*}})
func.func private @k(%x: tensor<16xf32>, %out: tensor<16xf32>) -> tensor<16xf32>
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %d = tensor.empty() : tensor<16xf32>
  %0 = func.call @k(%x, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %1 = func.call @k(%0, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %2 = func.call @k(%1, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %3 = func.call @k(%2, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %3 : tensor<16xf32>
}

// -----

// An output that is an input, a constant or another output must be copied.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[O0:.*]]: memref<4xf32>, %[[O1:.*]]: memref<4xf32>, %[[O2:.*]]: memref<4xf32>, %[[O3:.*]]: memref<2xi8>, %{{.*}}: memref<0xi8>)
// CHECK: call @k(%[[X]], %[[O1]])
// CHECK: memref.copy %[[X]], %[[O0]]
// CHECK: memref.copy %[[O1]], %[[O2]]
// CHECK: %[[C:.*]] = memref.get_global @main.constant_0
// CHECK: memref.copy %[[C]], %[[O3]]
// CHECK: memref.global "private" constant @main.constant_0 : memref<2xi8> = dense<[1, 0]> {alignment = 64 : i64}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi1>) {
  %d = tensor.empty() : tensor<4xf32>
  %c = "stepwell.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
  %0 = func.call @k(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %x, %0, %0, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi1>
}
