// RUN: stepwell-opt %s --pass-pipeline="builtin.module(stepwell-lower-vectors)" | FileCheck %s

// CHECK-LABEL: func.func @write_every_other
// CHECK-NOT: scf.for
// CHECK-COUNT-3: memref.store
// CHECK-NOT: memref.store
func.func @write_every_other(%x: memref<3xf32>, %y: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %mask = vector.constant_mask [3] : vector<4xi1>
  %v = vector.transfer_read %x[%c0], %zero, %mask {in_bounds = [true]} : memref<3xf32>, vector<4xf32>
  %part = memref.subview %y[1] [3] [2] : memref<8xf32> to memref<3xf32, strided<[2], offset: 1>>
  vector.transfer_write %v, %part[%c0], %mask {in_bounds = [true]} : vector<4xf32>, memref<3xf32, strided<[2], offset: 1>>
  return
}

// CHECK-LABEL: func.func @read_every_other
// CHECK-COUNT-4: memref.load
// CHECK: vector.from_elements
func.func @read_every_other(%x: memref<8xf32>, %y: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %part = memref.subview %x[0] [4] [2] : memref<8xf32> to memref<4xf32, strided<[2]>>
  %v = vector.transfer_read %part[%c0], %zero {in_bounds = [true]} : memref<4xf32, strided<[2]>>, vector<4xf32>
  vector.transfer_write %v, %y[%c0] {in_bounds = [true]} : vector<4xf32>, memref<4xf32>
  return
}
