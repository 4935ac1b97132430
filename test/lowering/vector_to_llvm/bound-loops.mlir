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

// Rows of interleaved elements: a write moves along two dimensions that a view merges, by whole elements of the first.
// CHECK-LABEL: func.func private @interleaved
// CHECK:         scf.forall (%[[I:.*]]) in (4)
// CHECK:           arith.cmpi slt, %[[I]]
// CHECK:           scf.for %{{.*}} = %{{.*}} to %[[ROWS:.*]] step
// CHECK:             %[[END:.*]] = arith.minsi %c16
// CHECK:             scf.for %{{.*}} = %{{.*}} to %[[END]] step
func.func private @interleaved(%table: memref<256xi64>, %out: memref<8x16x3xf32, strided<[64, 3, 1]>>)
    attributes {stepwell.kernel = {class = "movement"}, stepwell.extents = array<i64: 3, 4, -1>,
                stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant dense<0.0> : vector<24xf32>
  scf.forall (%i) in (4) {
    %row = affine.apply affine_map<(d0) -> (d0 * 2)>(%i)
    %rows = memref.subview %out[%row, 0, 0] [2, 16, 3] [1, 1, 1] : memref<8x16x3xf32, strided<[64, 3, 1]>> to memref<2x16x3xf32, strided<[64, 3, 1], offset: ?>>
    %merged = memref.collapse_shape %rows [[0], [1, 2]] : memref<2x16x3xf32, strided<[64, 3, 1], offset: ?>> into memref<2x48xf32, strided<[64, 1], offset: ?>>
    scf.for %r = %c0 to %c2 step %c1 {
      scf.for %j = %c0 to %c16 step %c8 {
        %place = arith.muli %j, %c3 : index
        vector.transfer_write %zero, %merged[%r, %place] {in_bounds = [true]} : vector<24xf32>, memref<2x48xf32, strided<[64, 1], offset: ?>>
      }
    }
  }
  return
}

// Negative: elements of the inner dimension are written one by one, so no index is a multiple of their number.
// CHECK-LABEL: func.func private @elements
// CHECK:         scf.for %{{.*}} = %c0{{.*}} to %c48
func.func private @elements(%table: memref<256xi64>, %out: memref<8x16x3xf32, strided<[64, 3, 1]>>)
    attributes {stepwell.kernel = {class = "movement"}, stepwell.extents = array<i64: -1, 4, -1>,
                stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c48 = arith.constant 48 : index
  %zero = arith.constant 0.0 : f32
  %rows = memref.subview %out[0, 0, 0] [2, 16, 3] [1, 1, 1] : memref<8x16x3xf32, strided<[64, 3, 1]>> to memref<2x16x3xf32, strided<[64, 3, 1]>>
  %merged = memref.collapse_shape %rows [[0], [1, 2]] : memref<2x16x3xf32, strided<[64, 3, 1]>> into memref<2x48xf32, strided<[64, 1]>>
  scf.for %j = %c0 to %c48 step %c1 {
    memref.store %zero, %merged[%c0, %j] : memref<2x48xf32, strided<[64, 1]>>
  }
  return
}

// A loop over all tiles of the result, which cover several rows, ends at their number in a call.
// CHECK-LABEL: func.func private @tiles
// CHECK-DAG:     %[[ROWS:.+]] = arith.ceildivsi %{{.+}}, %c4
// CHECK-DAG:     %[[COLUMNS:.+]] = arith.ceildivsi %{{.+}}, %c4
// CHECK:         %[[TOTAL:.+]] = arith.muli
// CHECK:         arith.minsi %{{.+}}, %{{.+}} {stepwell.rounds = array<i64: {{[0-9]+}}, 0>}
// CHECK:         scf.forall (%[[TILE:.+]]) = (0) to (9) step (5)
// CHECK:           %[[NEEDED:.+]] = arith.cmpi slt, %[[TILE]], %
// CHECK-NEXT:      scf.if %[[NEEDED]]
// CHECK-NEXT:        memref.store
func.func private @tiles(%table: memref<256xi64>, %out: memref<12x12xf32>)
    attributes {stepwell.kernel = {class = "winograd"}, stepwell.extents = array<i64: 0, 1>,
                stepwell.table_argument = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) = (0) to (9) step (5) {
    memref.store %zero, %out[%i, %i] : memref<12x12xf32>
  } {stepwell.tiles = array<i64: 4, 4>}
  return
}
