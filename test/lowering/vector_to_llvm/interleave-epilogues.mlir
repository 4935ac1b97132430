// RUN: stepwell-opt %s --stepwell-interleave-epilogues --split-input-file | FileCheck %s

// The epilogue of a tile runs among the products of the next one, a part in each iteration; that of the last tile
// follows the loops.
// CHECK-LABEL: func.func private @two_loops
// CHECK-SAME: (%[[A:.+]]: memref<4x64xi8>, %[[BIAS:.+]]: memref<4xi32>, %[[OUT:.+]]: memref<4x32xi32>
// CHECK:       %[[SUMS:.+]] = memref.alloca()
// CHECK:       %[[LAST:.+]]:3 = scf.for %[[I:.+]] = %c0{{.*}} to %c2{{.*}} step %c1{{.*}} iter_args(%[[I0:.+]] = %c0{{.*}}, %[[J0:.+]] = %c0{{.*}}, %[[HAS0:.+]] = %false)
// CHECK:         scf.for %[[J:.+]] = {{.+}} iter_args(%[[I1:.+]] = %[[I0]], %[[J1:.+]] = %[[J0]], %[[HAS:.+]] = %[[HAS0]])
// CHECK:           %[[ROW:.+]] = affine.apply #{{.+}}(%[[I1]], %[[J1]])
// CHECK:           %[[ADDED:.+]] = memref.load %[[BIAS]][%[[ROW]]]
// CHECK:           scf.for
// CHECK:             %[[END:.+]] = arith.select %[[HAS]], %c32{{.*}}, %c0
// CHECK:             %[[UPPER:.+]] = arith.minsi %{{.+}}, %[[END]]
// CHECK:             scf.for %[[R:.+]] = %{{.+}} to %[[UPPER]] step %c4
// CHECK:               memref.store %{{.+}}, %[[OUT]][%[[ROW]], %[[R]]]
// CHECK:             llvm.call_intrinsic "llvm.x86.tdpbusd"
// CHECK:           llvm.call_intrinsic "llvm.x86.tilestored64"
// CHECK-NOT:       memref.store
// CHECK:           scf.yield %[[I]], %[[J]], %true
// CHECK:       scf.if %[[LAST]]#2 {
// CHECK:         %[[ROW2:.+]] = affine.apply #{{.+}}(%[[LAST]]#0, %[[LAST]]#1)
// CHECK:         scf.for
// CHECK:           memref.store %{{.+}}, %[[OUT]][%[[ROW2]],
#row = affine_map<(i, j) -> (2 * i + j)>
func.func private @two_loops(%a: memref<4x64xi8>, %bias: memref<4xi32>, %out: memref<4x32xi32>) attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %t0 = arith.constant 0 : i8
  %t1 = arith.constant 1 : i8
  %t2 = arith.constant 2 : i8
  %stride = arith.constant 64 : i64
  %sums = memref.alloca() : memref<32xi32>
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %j = %c0 to %c2 step %c1 {
      llvm.call_intrinsic "llvm.x86.tilezero"(%t0) : (i8) -> ()
      scf.for %k = %c0 to %c32 step %c4 {
        llvm.call_intrinsic "llvm.x86.tdpbusd"(%t0, %t1, %t2) : (i8, i8, i8) -> ()
      }
      %address = memref.extract_aligned_pointer_as_index %sums : memref<32xi32> -> index
      %number = arith.index_cast %address : index to i64
      %pointer = llvm.inttoptr %number : i64 to !llvm.ptr
      llvm.call_intrinsic "llvm.x86.tilestored64"(%t0, %pointer, %stride) : (i8, !llvm.ptr, i64) -> ()
      %row = affine.apply #row(%i, %j)
      %added = memref.load %bias[%row] : memref<4xi32>
      scf.for %r = %c0 to %c32 step %c4 {
        %sum = memref.load %sums[%r] : memref<32xi32>
        %total = arith.addi %sum, %added : i32
        memref.store %total, %out[%row, %r] : memref<4x32xi32>
      }
    }
  }
  return
}

// -----

// Products that read what the epilogue writes must not run before it.
// CHECK-LABEL: func.func private @negative_in_place
// CHECK-NOT:   iter_args
// CHECK:       return
func.func private @negative_in_place(%x: memref<4x32xi32>) attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %t0 = arith.constant 0 : i8
  %t1 = arith.constant 1 : i8
  %t2 = arith.constant 2 : i8
  %stride = arith.constant 64 : i64
  %sums = memref.alloca() : memref<32xi32>
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %k = %c0 to %c32 step %c1 {
      %address = memref.extract_aligned_pointer_as_index %x : memref<4x32xi32> -> index
      %number = arith.index_cast %address : index to i64
      %pointer = llvm.inttoptr %number : i64 to !llvm.ptr
      llvm.call_intrinsic "llvm.x86.tileloadd64"(%t1, %pointer, %stride) : (i8, !llvm.ptr, i64) -> ()
      llvm.call_intrinsic "llvm.x86.tdpbusd"(%t0, %t1, %t2) : (i8, i8, i8) -> ()
    }
    %address = memref.extract_aligned_pointer_as_index %sums : memref<32xi32> -> index
    %number = arith.index_cast %address : index to i64
    %pointer = llvm.inttoptr %number : i64 to !llvm.ptr
    llvm.call_intrinsic "llvm.x86.tilestored64"(%t0, %pointer, %stride) : (i8, !llvm.ptr, i64) -> ()
    scf.for %r = %c0 to %c32 step %c1 {
      %sum = memref.load %sums[%r] : memref<32xi32>
      memref.store %sum, %x[%i, %r] : memref<4x32xi32>
    }
  }
  return
}

// -----

// Without an epilogue, sums are stored once.
// CHECK-LABEL: func.func private @negative_no_epilogue
// CHECK-NOT:   iter_args
// CHECK:       return
func.func private @negative_no_epilogue(%out: memref<32xi32>) attributes {stepwell.kernel = {class = "contraction"}} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %t0 = arith.constant 0 : i8
  %t1 = arith.constant 1 : i8
  %t2 = arith.constant 2 : i8
  %stride = arith.constant 64 : i64
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %k = %c0 to %c2 step %c1 {
      llvm.call_intrinsic "llvm.x86.tdpbusd"(%t0, %t1, %t2) : (i8, i8, i8) -> ()
    }
    %address = memref.extract_aligned_pointer_as_index %out : memref<32xi32> -> index
    %number = arith.index_cast %address : index to i64
    %pointer = llvm.inttoptr %number : i64 to !llvm.ptr
    llvm.call_intrinsic "llvm.x86.tilestored64"(%t0, %pointer, %stride) : (i8, !llvm.ptr, i64) -> ()
  }
  return
}
