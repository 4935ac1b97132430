// RUN: stepwell-opt %s --stepwell-bound-loops | FileCheck %s

// Loops end with the data; up to the end of the needed part, the result is filled with zeros.
// CHECK-LABEL: func.func private @rows
// CHECK-DAG:     %[[NEEDED:.*]] = memref.load %arg0[%c3
// CHECK-DAG:     %[[DATA:.*]] = memref.load %arg0[%c5
// CHECK:         scf.for
// CHECK:           vector.transfer_write
// CHECK:         scf.for %[[ROW:.*]] = %{{.*}} to
// CHECK:           vector.store %{{.*}}, %arg1[%[[ROW]], %{{.*}}] : memref<64x20xf32>, vector<16xf32>
// CHECK:           vector.store %{{.*}}, %arg1[%[[ROW]], %{{.*}}] : memref<64x20xf32>, vector<4xf32>
func.func private @rows(%table: memref<256xi64>, %out: memref<64x20xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 3, -1>,
                stepwell.kept = array<i64: 5, -1>, stepwell.table_argument = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %one = arith.constant dense<1.0> : vector<4x20xf32>
  scf.for %i = %c0 to %c64 step %c4 {
    vector.transfer_write %one, %out[%i, %c0] {in_bounds = [true, true]} : vector<4x20xf32>, memref<64x20xf32>
  }
  return
}

// The last dimension is filled element by element, in the rows that hold data.
// CHECK-LABEL: func.func private @columns
// CHECK:         %[[END:.*]] = arith.index_cast
// CHECK:         %[[FIRST:.*]] = arith.minsi %{{.*}}, %[[END]]
// CHECK:         scf.for %[[ROW:.*]] = %{{.*}} to %c64
// CHECK:           scf.for %[[COLUMN:.*]] = %[[FIRST]] to
// CHECK:             memref.store %{{.*}}, %arg1[%[[ROW]], %[[COLUMN]]] : memref<64x20xf32>
func.func private @columns(%table: memref<256xi64>, %out: memref<64x20xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: -1, -1>,
                stepwell.kept = array<i64: -1, 5>, stepwell.table_argument = 0 : i64} {
  return
}

// A padding of zeros that no reader needs is not filled.
// CHECK-LABEL: func.func private @not_needed
// CHECK-NOT:     store
func.func private @not_needed(%table: memref<256xi64>, %out: memref<64x20xf32>)
    attributes {stepwell.kernel = {class = "elementwise"}, stepwell.extents = array<i64: 3, -1>,
                stepwell.kept = array<i64: 3, -1>, stepwell.table_argument = 0 : i64} {
  return
}
