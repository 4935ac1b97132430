// RUN: stepwell-opt %s --stepwell-hoist-stack | FileCheck %s

// CHECK-LABEL: func.func private @loop(
// CHECK-NEXT:    memref.alloca() : memref<64xf32>
// CHECK-NEXT:    arith.constant
// CHECK:         scf.for
// CHECK-NOT:     memref.alloca
// CHECK:         return
func.func private @loop(%x: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %t = memref.alloca() : memref<64xf32>
    %0 = memref.load %x[%i] : memref<8xf32>
    memref.store %0, %t[%i] : memref<64xf32>
  }
  return
}

// A buffer whose size is only known inside the loop stays there.

// CHECK-LABEL: func.func private @negative_dynamic(
// CHECK:         scf.for
// CHECK:           memref.alloca(%{{.+}}) : memref<?xf32>
func.func private @negative_dynamic(%x: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %t = memref.alloca(%i) : memref<?xf32>
    %0 = memref.load %x[%i] : memref<8xf32>
    memref.store %0, %t[%c0] : memref<?xf32>
  }
  return
}
