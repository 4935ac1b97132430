// RUN: stepwell-opt %s --stepwell-bound-loops | FileCheck %s

// A loop over rows ends at the number in the table; a partial tile is computed completely.
// CHECK-LABEL: func.func private @rows
// CHECK:         %[[N:.*]] = memref.load %arg0[%{{.*}}] : memref<256xi64>
// CHECK:         %[[EXTENT:.*]] = arith.index_cast %[[N]] : i64 to index
// CHECK:         %[[END:.*]] = arith.minsi
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[END]] step
func.func private @rows(%table: memref<256xi64>, %out: memref<64x16xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 3, -1>,
                stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<4x16xf32>
  scf.for %i = %c0 to %c64 step %c4 {
    vector.transfer_write %zero, %out[%i, %c0] {in_bounds = [true, true]} : vector<4x16xf32>, memref<64x16xf32>
  }
  return
}

// Iterations of a parallel loop are skipped.
// CHECK-LABEL: func.func private @blocks
// CHECK:         scf.forall (%[[I:.*]]) in (8)
// CHECK:           %[[NEEDED:.*]] = arith.cmpi slt, %[[I]]
// CHECK:           scf.if %[[NEEDED]]
// CHECK:             memref.store
func.func private @blocks(%table: memref<256xi64>, %out: memref<8xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 0>,
                stepwell.table_argument = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (8) {
    memref.store %zero, %out[%i] : memref<8xf32>
  }
  return
}

// No iteration is skipped in a loop whose iterations write elements that others read.
// CHECK-LABEL: func.func private @shared
// CHECK-NOT:     arith.minsi
func.func private @shared(%table: memref<256xi64>, %out: memref<8xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 0>,
                stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %sum = memref.alloca() : memref<8xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    memref.store %zero, %sum[%i] : memref<8xf32>
  }
  %last = memref.load %sum[%c8] : memref<8xf32>
  memref.store %last, %out[%c0] : memref<8xf32>
  return
}

// Tiles that are moved back at the edge are skipped by their original position.
// CHECK-LABEL: func.func private @moved_back
// CHECK:         scf.forall (%[[I:.*]]) in (7)
// CHECK:           %[[NEEDED:.*]] = arith.cmpi slt, %[[I]]
// CHECK:           scf.if %[[NEEDED]]
func.func private @moved_back(%table: memref<256xi64>, %out: memref<14xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 0>,
                stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (7) {
    %tile = arith.minsi %i, %c5 : index
    %start = arith.muli %tile, %c2 : index
    %part = memref.subview %out[%start] [4] [1] : memref<14xf32> to memref<4xf32, strided<[1], offset: ?>>
    scf.for %j = %c0 to %c4 step %c1 {
      %place = arith.minsi %j, %c3 : index
      memref.store %zero, %part[%place] : memref<4xf32, strided<[1], offset: ?>>
    }
  }
  return
}
