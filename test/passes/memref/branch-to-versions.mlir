// RUN: stepwell-opt %s --stepwell-branch-to-versions --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK:         %[[N:.+]] = memref.load %arg1[%c7]
// CHECK:         %[[LAST:.+]] = arith.cmpi eq, %[[N]], %c2
// CHECK:         scf.if %[[LAST]] {
// CHECK:           func.call @k2(%arg0, %arg1, %arg2) {stepwell.step = 3 : i64}
// CHECK:         } else {
// CHECK:           %[[SECOND:.+]] = arith.cmpi eq, %[[N]], %c1
// CHECK:           scf.if %[[SECOND]] {
// CHECK:             func.call @k1(%arg0, %arg1, %arg2) {stepwell.step = 3 : i64}
// CHECK:           } else {
// CHECK:             func.call @k(%arg0, %arg1, %arg2) {stepwell.step = 3 : i64}
func.func @main(%x: memref<4xf32>, %table: memref<256xi64> {stepwell.name = "stepwell.table"}, %out: memref<4xf32>) {
  call @k(%x, %table, %out) {stepwell.step = 3 : i64, stepwell.choice = 7 : i64, stepwell.versions = [@k, @k1, @k2]} : (memref<4xf32>, memref<256xi64>, memref<4xf32>) -> ()
  return
}
func.func private @k(memref<4xf32>, memref<256xi64>, memref<4xf32>)
func.func private @k1(memref<4xf32>, memref<256xi64>, memref<4xf32>)
func.func private @k2(memref<4xf32>, memref<256xi64>, memref<4xf32>)

// -----

// Calls of a kernel with one version do not change.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.if
// CHECK:         call @k(%arg0, %arg1) {stepwell.step = 0 : i64}
func.func @main(%x: memref<4xf32>, %out: memref<4xf32>) {
  call @k(%x, %out) {stepwell.step = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
func.func private @k(memref<4xf32>, memref<4xf32>)

// -----

// A table that `@main` also takes other views of is an argument of bytes.
// CHECK-LABEL: func.func @main
// CHECK:         %[[TABLE:.+]] = memref.view %arg1[%c0][] : memref<2048xi8> to memref<256xi64>
// CHECK:         memref.load %[[TABLE]][%c7] : memref<256xi64>
func.func @main(%x: memref<4xf32>, %table: memref<2048xi8> {stepwell.name = "stepwell.table"}, %out: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %view = memref.view %table[%c0][] : memref<2048xi8> to memref<256xi64>
  call @k(%x, %view, %out) {stepwell.step = 3 : i64, stepwell.choice = 7 : i64, stepwell.versions = [@k, @k1]} : (memref<4xf32>, memref<256xi64>, memref<4xf32>) -> ()
  return
}
func.func private @k(memref<4xf32>, memref<256xi64>, memref<4xf32>)
func.func private @k1(memref<4xf32>, memref<256xi64>, memref<4xf32>)
