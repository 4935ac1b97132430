// RUN: stepwell-opt %s --stepwell-lower-copies | FileCheck %s

// CHECK-LABEL: func.func @strided
// CHECK:         linalg.copy {{.*}}ins(%{{.+}} : memref<4x8xf32, strided<[16, 1]>>) outs(%{{.+}} : memref<4x8xf32>)
func.func @strided(%x: memref<4x8xf32, strided<[16, 1]>>, %y: memref<4x8xf32>) {
  memref.copy %x, %y : memref<4x8xf32, strided<[16, 1]>> to memref<4x8xf32>
  return
}

// CHECK-LABEL: func.func @negative_contiguous
// CHECK:         memref.copy
func.func @negative_contiguous(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  memref.copy %x, %y : memref<4x8xf32> to memref<4x8xf32>
  return
}
