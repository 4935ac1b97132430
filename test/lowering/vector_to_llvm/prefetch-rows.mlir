// RUN: stepwell-opt %s --stepwell-prefetch-rows="min-bytes=4096 min-stream=4096" | FileCheck %s

// The second sweep over a row prefetches the next row, or the same one at the end.

// CHECK-LABEL: func.func private @sweeps(
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %[[END:.+]] step %[[STEP:.+]] {
// CHECK:           %[[VIEW:.+]] = memref.subview %arg0[%[[ROW]], 0]
// CHECK:           scf.for
// CHECK-NOT:         memref.prefetch
// CHECK:             vector.load %[[VIEW]]
// CHECK:           %[[AFTER:.+]] = arith.addi %[[ROW]], %[[STEP]]
// CHECK:           %[[INSIDE:.+]] = arith.cmpi slt, %[[AFTER]], %[[END]]
// CHECK:           %[[NEXT:.+]] = arith.select %[[INSIDE]], %[[AFTER]], %[[ROW]]
// CHECK:           %[[AHEAD:.+]] = memref.subview %arg0[%[[NEXT]], 0]
// CHECK:           scf.for %[[I:.+]] =
// CHECK:             memref.prefetch %[[AHEAD]][%{{.+}}, %[[I]]], read, locality<3>, data
// CHECK:             memref.prefetch %[[AHEAD]]{{.+}}, read, locality<3>, data
// CHECK-NOT:         memref.prefetch
// CHECK:             vector.load %[[VIEW]]
// CHECK:           scf.for
// CHECK-NOT:         memref.prefetch
// CHECK:         return
func.func private @sweeps(%x: memref<16x256xf32>, %y: memref<16x256xf32>, %first: index, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c256 = arith.constant 256 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %row = %first to %last step %c1 {
    %view = memref.subview %x[%row, 0] [1, 256] [1, 1]
      : memref<16x256xf32> to memref<1x256xf32, strided<[256, 1], offset: ?>>
    %sum = scf.for %i = %c0 to %c256 step %c32 iter_args(%s = %zero) -> (vector<32xf32>) {
      %v = vector.load %view[%c0, %i] : memref<1x256xf32, strided<[256, 1], offset: ?>>, vector<32xf32>
      %t = arith.addf %s, %v : vector<32xf32>
      scf.yield %t : vector<32xf32>
    }
    scf.for %i = %c0 to %c256 step %c32 {
      %v = vector.load %view[%c0, %i] : memref<1x256xf32, strided<[256, 1], offset: ?>>, vector<32xf32>
      %t = arith.mulf %v, %sum : vector<32xf32>
      vector.store %t, %y[%row, %i] : memref<16x256xf32>, vector<32xf32>
    }
    scf.for %i = %c0 to %c256 step %c32 {
      %v = vector.load %view[%c0, %i] : memref<1x256xf32, strided<[256, 1], offset: ?>>, vector<32xf32>
      vector.store %v, %y[%row, %i] : memref<16x256xf32>, vector<32xf32>
    }
  }
  return
}

// The only sweep over the rows prefetches 2 KiB ahead, but not beyond the last row.

// CHECK-LABEL: func.func private @once(
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %[[END:.+]] step %[[STEP:.+]] {
// CHECK:           %[[AFTER:.+]] = arith.addi %[[ROW]], %[[STEP]]
// CHECK:           %[[INSIDE:.+]] = arith.cmpi slt, %[[AFTER]], %[[END]]
// CHECK-DAG:       %[[FAR:.+]] = arith.constant 512
// CHECK-DAG:       %[[NONE:.+]] = arith.constant 0
// CHECK:           %[[DISTANCE:.+]] = arith.select %[[INSIDE]], %[[FAR]], %[[NONE]]
// CHECK:           scf.for %[[I:[a-z0-9]+]] =
// CHECK:             %[[AHEAD:.+]] = arith.addi %[[I]], %[[DISTANCE]]
// CHECK:             memref.prefetch %arg0[%[[ROW]], %[[AHEAD]]], read, locality<3>, data
// CHECK-NOT:         memref.prefetch
// CHECK-LABEL: func.func private @negative_gaps(
// CHECK-NOT:     memref.prefetch
// CHECK-LABEL: func.func private @negative_columns(
// CHECK-NOT:     memref.prefetch
func.func private @once(%x: memref<16x1024xf32>, %y: memref<16xf32>, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %row = %c0 to %last step %c1 {
    %sum = scf.for %i = %c0 to %c1024 step %c16 iter_args(%s = %zero) -> (vector<16xf32>) {
      %v = vector.load %x[%row, %i] : memref<16x1024xf32>, vector<16xf32>
      %t = arith.addf %s, %v : vector<16xf32>
      scf.yield %t : vector<16xf32>
    }
    %total = vector.reduction <add>, %sum : vector<16xf32> into f32
    memref.store %total, %y[%row] : memref<16xf32>
  }
  return
}

// Negative: rows with gaps between them, and a sweep along columns.

func.func private @negative_gaps(%x: memref<16x2048xf32>, %y: memref<16x1024xf32>, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  %view = memref.subview %x[0, 0] [16, 1024] [1, 1] : memref<16x2048xf32> to memref<16x1024xf32, strided<[2048, 1]>>
  scf.for %row = %c0 to %last step %c1 {
    scf.for %i = %c0 to %c1024 step %c16 {
      %v = vector.load %view[%row, %i] : memref<16x1024xf32, strided<[2048, 1]>>, vector<16xf32>
      vector.store %v, %y[%row, %i] : memref<16x1024xf32>, vector<16xf32>
    }
  }
  return
}
func.func private @negative_columns(%x: memref<16x1024xf32>, %y: memref<16x1024xf32>, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  scf.for %i = %c0 to %c1024 step %c16 {
    scf.for %row = %c0 to %last step %c1 {
      %v = vector.load %x[%row, %i] : memref<16x1024xf32>, vector<16xf32>
      vector.store %v, %y[%row, %i] : memref<16x1024xf32>, vector<16xf32>
    }
  }
  return
}

// Negative: a single sweep over short rows, operands that all rows share, small operands, and kernels with more computation.

// CHECK-LABEL: func.func private @negative_once(
// CHECK-NOT:     memref.prefetch
// CHECK-LABEL: func.func private @negative_same(
// CHECK-NOT:     memref.prefetch
// CHECK-LABEL: func.func private @negative_little_work(
// CHECK-NOT:     memref.prefetch
func.func private @negative_once(%x: memref<16x256xf32>, %y: memref<16x256xf32>, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c256 = arith.constant 256 : index
  scf.for %row = %c0 to %last step %c1 {
    scf.for %i = %c0 to %c256 step %c16 {
      %v = vector.load %x[%row, %i] : memref<16x256xf32>, vector<16xf32>
      vector.store %v, %y[%row, %i] : memref<16x256xf32>, vector<16xf32>
    }
  }
  return
}

func.func private @negative_same(%x: memref<4096xf32>, %y: memref<16x4096xf32>, %last: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c256 = arith.constant 256 : index
  scf.for %row = %c0 to %last step %c1 {
    scf.for %i = %c0 to %c256 step %c16 {
      %v = vector.load %x[%i] : memref<4096xf32>, vector<16xf32>
      vector.store %v, %y[%row, %i] : memref<16x4096xf32>, vector<16xf32>
    }
    scf.for %i = %c0 to %c256 step %c16 {
      %v = vector.load %x[%i] : memref<4096xf32>, vector<16xf32>
      vector.store %v, %y[%row, %i] : memref<16x4096xf32>, vector<16xf32>
    }
  }
  return
}

func.func private @negative_little_work(%x: memref<4096xf32>, %y: memref<4096xf32>, %last: index)
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %last step %c16 {
    %v = vector.load %x[%i] : memref<4096xf32>, vector<16xf32>
    vector.store %v, %y[%i] : memref<4096xf32>, vector<16xf32>
  }
  return
}
