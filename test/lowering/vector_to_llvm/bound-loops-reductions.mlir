// RUN: stepwell-opt %s --stepwell-bound-loops | FileCheck %s

// Iterations that only read masked elements do not change a sum.
// CHECK-LABEL: func.func private @sums
// CHECK:         %[[N:.*]] = memref.load %arg1[%{{.*}}] : memref<256xi64>
// CHECK:         %[[EXTENT:.*]] = arith.index_cast %[[N]] : i64 to index
// CHECK:         %[[END:.*]] = arith.minsi
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[END]] step %{{.*}} iter_args
func.func private @sums(%x: memref<64x16xf32>, %table: memref<256xi64>, %out: memref<16xf32>)
    attributes {stepwell.kernel = {class = "reduction"}, stepwell.extents = array<i64: -1>,
                stepwell.skipped = array<i64: 0, 0, 3>, stepwell.table_argument = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%total = %zero) -> (vector<16xf32>) {
    %row = vector.load %x[%i, %c0] : memref<64x16xf32>, vector<16xf32>
    %next = arith.addf %total, %row : vector<16xf32>
    scf.yield %next : vector<16xf32>
  }
  vector.store %sum, %out[%c0] : memref<16xf32>, vector<16xf32>
  return
}

// A loop whose index selects the written elements, or is used in computations, keeps all its iterations.
// CHECK-LABEL: func.func private @negative_writes
// CHECK-NOT:     arith.minsi
func.func private @negative_writes(%x: memref<64xf32>, %table: memref<256xi64>, %out: memref<64xf32>)
    attributes {stepwell.kernel = {class = "reduction"}, stepwell.extents = array<i64: -1>,
                stepwell.skipped = array<i64: 0, 0, 3>, stepwell.table_argument = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %item = memref.load %x[%i] : memref<64xf32>
    memref.store %item, %out[%i] : memref<64xf32>
  }
  return
}

// A mask keeps all elements that the loop still reads.
// CHECK-LABEL: func.func private @masked_sums
// CHECK-NOT:     memref.load %arg1
// CHECK:         %[[KEPT:.+]] = arith.constant 1.000000e+00 : f32
// CHECK:         arith.cmpf une, %[[KEPT]], %{{.+}} : f32
// CHECK-NOT:     memref.load %arg1
// CHECK:         return
func.func private @masked_sums(%x: memref<64x16xf32>, %mask: memref<64xf32>, %table: memref<256xi64>, %out: memref<16xf32>)
    attributes {stepwell.kernel = {class = "reduction"}, stepwell.extents = array<i64: -1>,
                stepwell.skipped = array<i64: 0, 0, 3>, stepwell.masks = array<i64: 1, 3>, stepwell.table_argument = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<16xf32>
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%total = %zeros) -> (vector<16xf32>) {
    %row = vector.load %x[%i, %c0] : memref<64x16xf32>, vector<16xf32>
    %kept = memref.load %mask[%i] : memref<64xf32>
    %is_kept = arith.cmpf une, %kept, %zero : f32
    %part = arith.select %is_kept, %row, %zeros : vector<16xf32>
    %next = arith.addf %total, %part : vector<16xf32>
    scf.yield %next : vector<16xf32>
  }
  vector.store %sum, %out[%c0] : memref<16xf32>, vector<16xf32>
  return
}

// A loop that steps over several elements may read one that the mask does not keep.
// CHECK-LABEL: func.func private @negative_steps
// CHECK-COUNT-2: memref.load %arg1
func.func private @negative_steps(%x: memref<64x16xf32>, %mask: memref<64xf32>, %table: memref<256xi64>, %out: memref<16xf32>)
    attributes {stepwell.kernel = {class = "reduction"}, stepwell.extents = array<i64: -1>,
                stepwell.skipped = array<i64: 0, 0, 3>, stepwell.masks = array<i64: 1, 3>, stepwell.table_argument = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<16xf32>
  %sum = scf.for %i = %c0 to %c64 step %c2 iter_args(%total = %zeros) -> (vector<16xf32>) {
    %second = arith.addi %i, %c1 : index
    %row = vector.load %x[%i, %c0] : memref<64x16xf32>, vector<16xf32>
    %other = vector.load %x[%second, %c0] : memref<64x16xf32>, vector<16xf32>
    %kept = memref.load %mask[%i] : memref<64xf32>
    %is_kept = arith.cmpf une, %kept, %zero : f32
    %part = arith.select %is_kept, %row, %zeros : vector<16xf32>
    %second_kept = memref.load %mask[%second] : memref<64xf32>
    %is_second_kept = arith.cmpf une, %second_kept, %zero : f32
    %second_part = arith.select %is_second_kept, %other, %zeros : vector<16xf32>
    %both = arith.addf %part, %second_part : vector<16xf32>
    %next = arith.addf %total, %both : vector<16xf32>
    scf.yield %next : vector<16xf32>
  }
  vector.store %sum, %out[%c0] : memref<16xf32>, vector<16xf32>
  return
}
