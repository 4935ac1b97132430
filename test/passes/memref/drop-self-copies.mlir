// RUN: stepwell-opt %s --stepwell-drop-self-copies --split-input-file | FileCheck %s

// Reshapes with different groups of dimensions, and another stride of the dimension of size 1.
// CHECK-LABEL: func.func @reshaped
// CHECK-NOT:     memref.copy
func.func @reshaped(%out: memref<6x1x80xf32, strided<[96, 90, 1]>>) {
  %0 = memref.collapse_shape %out [[0], [1, 2]] : memref<6x1x80xf32, strided<[96, 90, 1]>> into memref<6x80xf32, strided<[96, 1]>>
  %1 = memref.expand_shape %0 [[0, 1], [2]] output_shape [6, 1, 80] : memref<6x80xf32, strided<[96, 1]>> into memref<6x1x80xf32, strided<[96, 96, 1]>>
  memref.copy %1, %out : memref<6x1x80xf32, strided<[96, 96, 1]>> to memref<6x1x80xf32, strided<[96, 90, 1]>>
  return
}

// -----

// CHECK-LABEL: func.func @another_buffer
// CHECK:         memref.copy %arg0, %arg1
func.func @another_buffer(%x: memref<6x80xf32>, %out: memref<6x80xf32>) {
  memref.copy %x, %out : memref<6x80xf32> to memref<6x80xf32>
  return
}

// -----

// Another order of the elements of the same buffer.
// CHECK-LABEL: func.func @transposed
// CHECK:         memref.copy
func.func @transposed(%out: memref<64xf32>) {
  %0 = memref.expand_shape %out [[0, 1]] output_shape [8, 8] : memref<64xf32> into memref<8x8xf32>
  %1 = memref.transpose %0 (i, j) -> (j, i) : memref<8x8xf32> to memref<8x8xf32, strided<[1, 8]>>
  memref.copy %1, %0 : memref<8x8xf32, strided<[1, 8]>> to memref<8x8xf32>
  return
}

// -----

// A part of the same buffer, at another place.
// CHECK-LABEL: func.func @part
// CHECK:         memref.copy
func.func @part(%out: memref<16xf32>) {
  %0 = memref.subview %out[0] [8] [1] : memref<16xf32> to memref<8xf32, strided<[1]>>
  %1 = memref.subview %out[8] [8] [1] : memref<16xf32> to memref<8xf32, strided<[1], offset: 8>>
  memref.copy %0, %1 : memref<8xf32, strided<[1]>> to memref<8xf32, strided<[1], offset: 8>>
  return
}
