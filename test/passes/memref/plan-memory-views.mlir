// RUN: stepwell-opt %s --split-input-file --pass-pipeline='builtin.module(stepwell-plan-memory)' | FileCheck %s

// Results are made in their part of a larger tensor; a kernel's memory begins with its first element.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[ARENA:[a-z0-9]+]]: memref<256xi8>
// CHECK:         %[[C32:.+]] = arith.constant 32 : index
// CHECK:         %[[FLAT:.+]] = memref.view %[[ARENA]][%[[C32]]][] {{.*}}: memref<256xi8> to memref<56xf32>
// CHECK:         %[[PART:.+]] = memref.reinterpret_cast %[[FLAT]] to offset: [0], sizes: [4, 8], strides: [16, 1]
// CHECK:         call @half(%{{.+}}, %[[PART]])
// CHECK:         call @whole(%{{.+}}, %{{.+}}) {{.*}} : (memref<4x16xf32>, memref<4x16xf32>)
// CHECK:       func.func private @half(memref<4x8xf32> {{.*}}, memref<4x8xf32, strided<[16, 1]>> {llvm.noalias})
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %d = tensor.extract_slice %e[0, 8] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %0 = call @half(%x, %d) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tensor.insert_slice %0 into %e[0, 8] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x16xf32>
  %o = tensor.empty() : tensor<4x16xf32>
  %2 = call @whole(%1, %o) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}
func.func private @half(%x: tensor<4x8xf32>, %out: tensor<4x8xf32> {stepwell.strides = array<i64: 16, 1>}) -> tensor<4x8xf32>
func.func private @whole(%x: tensor<4x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32>

// -----

// An input whose parts are used is bytes in @main; contiguous parts are plain memory.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<128xi8>
// CHECK:         %[[C:.+]] = arith.constant 64 : index
// CHECK:         memref.view %[[X]][%[[C]]][] {{.*}}: memref<128xi8> to memref<16xf32>
func.func @main(%x: tensor<4x8xf32>) -> tensor<16xf32> {
  %0 = tensor.extract_slice %x[2, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 16>} : (tensor<2x8xf32>) -> tensor<16xf32>
  %d = tensor.empty() : tensor<16xf32>
  %2 = call @k(%1, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %2 : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>, %out: tensor<16xf32>) -> tensor<16xf32>

// -----

// An input that is read only as a whole is no bytes, whatever its shape in a kernel.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<4x8xf32>
// CHECK-NOT:     memref.view
// CHECK:         memref.reinterpret_cast %[[X]] {{.*}} to memref<32xf32>
func.func @main(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = "stepwell.reshape"(%x) {shape = array<i64: 32>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %d = tensor.empty() : tensor<32xf32>
  %1 = call @k(%0, %d) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %1 : tensor<32xf32>
}
func.func private @k(%x: tensor<32xf32>, %out: tensor<32xf32>) -> tensor<32xf32>
