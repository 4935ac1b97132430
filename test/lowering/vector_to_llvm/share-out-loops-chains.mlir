// RUN: stepwell-opt %s -split-input-file --stepwell-share-out-loops | FileCheck %s

// An op whose result others read is computed with its readers, by the thread that has their block.

// CHECK-LABEL: func.func private @chain(
// CHECK-SAME:    %[[FIRST:[^:]+]]: index, %[[LAST:[^:]+]]: index)
// CHECK-SAME:    stepwell.phases = array<i64: 4>
// CHECK:         scf.for %{{.+}} = %[[FIRST]] to %[[LAST]]
// CHECK:         %[[MINE:.+]] = arith.andi
// CHECK-NEXT:    scf.if %[[MINE]] {
// CHECK-NEXT:      %[[SUM:.+]] = scf.for
// CHECK:           arith.negf %[[SUM]]
// CHECK-NEXT:      memref.store
// CHECK-NEXT:    }
// CHECK-NEXT:    return
func.func private @chain(%x: memref<8xf32> {llvm.noalias, llvm.readonly}, %y: memref<4xf32> {llvm.noalias},
                         %z: memref<1xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  scf.forall (%i) in (4) {
    memref.store %zero, %y[%i] : memref<4xf32>
  }
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %zero) -> (f32) {
    %v = memref.load %x[%i] : memref<8xf32>
    %t = arith.addf %s, %v : f32
    scf.yield %t : f32
  }
  %c0_again = arith.constant 0 : index
  %negative = arith.negf %sum : f32
  memref.store %negative, %z[%c0_again] : memref<1xf32>
  return
}
func.func @main(%x: memref<8xf32>, %y: memref<4xf32>, %z: memref<1xf32>) {
  func.call @chain(%x, %y, %z) : (memref<8xf32>, memref<4xf32>, memref<1xf32>) -> ()
  return
}

// -----

// An unrelated op between them keeps the kernel undivided.

// CHECK-LABEL: func.func private @negative_between(
// CHECK-NOT:     : index)
// CHECK-NOT:     stepwell.phases
// CHECK:         return
func.func private @negative_between(%x: memref<8xf32> {llvm.noalias, llvm.readonly}, %y: memref<4xf32> {llvm.noalias},
                                    %z: memref<1xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %zero) -> (f32) {
    %v = memref.load %x[%i] : memref<8xf32>
    %t = arith.addf %s, %v : f32
    scf.yield %t : f32
  }
  scf.forall (%i) in (4) {
    memref.store %zero, %y[%i] : memref<4xf32>
  }
  memref.store %sum, %z[%c0] : memref<1xf32>
  return
}
func.func @main(%x: memref<8xf32>, %y: memref<4xf32>, %z: memref<1xf32>) {
  func.call @negative_between(%x, %y, %z) : (memref<8xf32>, memref<4xf32>, memref<1xf32>) -> ()
  return
}
