// RUN: stepwell-opt %s "--stepwell-bound-loops" "--stepwell-share-out-loops" | FileCheck %s

// Of sixteen blocks of rows, those with live rows are distributed: each thread gets about the same number of blocks.
// CHECK-LABEL: func.func private @k
// CHECK-SAME:    %[[FIRST:[a-z0-9]+]]: index, %[[LAST:[a-z0-9]+]]: index)
// CHECK:         %[[ROUNDS:.+]] = arith.ceildivsi
// CHECK:         %[[NEEDED:.+]] = arith.minsi %[[ROUNDS]], %{{.+}} {stepwell.rounds
// CHECK:         %[[START:.+]] = arith.muli %[[FIRST]], %[[NEEDED]]
// CHECK:         arith.divui %[[START]], %c16
func.func @main(%x: memref<256xf32>, %table: memref<256xi64>, %y: memref<256xf32>) {
  call @k(%x, %table, %y) : (memref<256xf32>, memref<256xi64>, memref<256xf32>) -> ()
  return
}
func.func private @k(%x: memref<256xf32> {llvm.noalias, llvm.readonly}, %table: memref<256xi64> {llvm.noalias, llvm.readonly}, %y: memref<256xf32> {llvm.noalias}) attributes {stepwell.extents = array<i64: 3>, stepwell.table_argument = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.forall (%i) = (0) to (256) step (16) {
    scf.for %j = %c0 to %c16 step %c1 {
      %at = arith.addi %i, %j : index
      %v = memref.load %x[%at] : memref<256xf32>
      memref.store %v, %y[%at] : memref<256xf32>
    }
  }
  return
}
