// RUN: stepwell-opt %s --stepwell-stream-stores="target=x86-64-v4 min-bytes=4096" | FileCheck %s
// RUN: stepwell-opt %s --stepwell-stream-stores="target=aarch64 min-bytes=4096" | FileCheck %s --check-prefix=ARM

// ARM-NOT: nontemporal

// CHECK-LABEL: func.func private @whole_lines(
// CHECK:         %[[PLACE:.+]] = memref.extract_aligned_pointer_as_index %arg1
// CHECK:         %[[REST:.+]] = arith.remui %[[PLACE]], %{{.+}}
// CHECK:         %[[ALIGNED:.+]] = arith.cmpi eq, %[[REST]]
// CHECK:         scf.if %[[ALIGNED]] {
// CHECK-NEXT:      scf.for
// CHECK:             vector.store {{.+}} {alignment = 64 : i64, nontemporal = true}
// CHECK:           llvm.call_intrinsic "llvm.x86.sse.sfence"()
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.for
// CHECK:             vector.store %{{.+}}, %{{.+}}[%{{.+}}, %{{.+}}] : memref<4x256xf32
// CHECK-NOT:     sfence
// CHECK:         return
func.func private @whole_lines(%x: memref<16x256xf32>, %y: memref<16x256xf32>, %first: index, %last: index)
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %c256 = arith.constant 256 : index
  scf.for %block = %first to %last step %c1 {
    %row = arith.muli %block, %c4 : index
    %from = memref.subview %x[%row, 0] [4, 256] [1, 1]
      : memref<16x256xf32> to memref<4x256xf32, strided<[256, 1], offset: ?>>
    %to = memref.subview %y[%row, 0] [4, 256] [1, 1]
      : memref<16x256xf32> to memref<4x256xf32, strided<[256, 1], offset: ?>>
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c256 step %c32 {
        %v = vector.load %from[%i, %j] : memref<4x256xf32, strided<[256, 1], offset: ?>>, vector<32xf32>
        vector.store %v, %to[%i, %j] : memref<4x256xf32, strided<[256, 1], offset: ?>>, vector<32xf32>
      }
    }
  }
  return
}

// Negative: rows that start inside a line, partial lines, results that are read too, small ones, and more computation.

// CHECK-LABEL: func.func private @negative_rows(
// CHECK-NOT:     nontemporal
// CHECK-LABEL: func.func private @negative_parts(
// CHECK-NOT:     nontemporal
// CHECK-LABEL: func.func private @negative_read(
// CHECK-NOT:     nontemporal
// CHECK-LABEL: func.func private @negative_small(
// CHECK-NOT:     nontemporal
// CHECK-LABEL: func.func private @negative_class(
// CHECK-NOT:     nontemporal
func.func private @negative_rows(%v: vector<16xf32>, %y: memref<64x40xf32>, %n: index)
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 { vector.store %v, %y[%i, %c0] : memref<64x40xf32>, vector<16xf32> }
  return
}

func.func private @negative_parts(%v: vector<8xf32>, %y: memref<4096xf32>, %n: index)
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 { vector.store %v, %y[%i] : memref<4096xf32>, vector<8xf32> }
  return
}

func.func private @negative_read(%y: memref<4096xf32>, %n: index)
    attributes {stepwell.kernel = {class = "reduction"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 {
    %v = vector.load %y[%i] : memref<4096xf32>, vector<16xf32>
    vector.store %v, %y[%i] : memref<4096xf32>, vector<16xf32>
  }
  return
}

func.func private @negative_small(%v: vector<16xf32>, %y: memref<1008xf32>, %n: index)
    attributes {stepwell.kernel = {class = "elementwise"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 { vector.store %v, %y[%i] : memref<1008xf32>, vector<16xf32> }
  return
}

func.func private @negative_class(%v: vector<16xf32>, %y: memref<4096xf32>, %n: index)
    attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 { vector.store %v, %y[%i] : memref<4096xf32>, vector<16xf32> }
  return
}
