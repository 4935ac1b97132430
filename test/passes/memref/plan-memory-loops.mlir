// RUN: stepwell-opt %s -split-input-file --pass-pipeline='builtin.module(stepwell-plan-memory,canonicalize,cse)' | FileCheck %s

// Rows are read from the input and written to the output. The iteration writes the state after reading it, so the loop
// copies nothing.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<96xi8>, %[[H:.*]]: memref<4xf32>, %[[Y:.*]]: memref<96xi8>, %[[ARENA:.*]]: memref<{{.*}}xi8>)
// CHECK: %[[STATE:.*]] = memref.view %[[ARENA]]
// CHECK: memref.copy %[[H]], %[[STATE]]
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:   %[[OFFSET:.*]] = arith.muli %[[I]], %c16
// CHECK:   %[[ROW:.*]] = memref.view %[[X]][%[[OFFSET]]][] : memref<96xi8> to memref<4xf32>
// CHECK:   %[[SUM:.*]] = memref.view %[[ARENA]]
// CHECK:   call @add(%[[ROW]], %[[STATE]], %[[SUM]])
// CHECK:   call @k(%[[SUM]], %[[STATE]])
// CHECK:   %[[OUT:.*]] = memref.view %[[Y]][%[[OFFSET]]][] : memref<96xi8> to memref<4xf32>
// CHECK:   call @k(%[[SUM]], %[[OUT]])
// CHECK-NOT: memref.copy
// CHECK: }
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func private @add(%x: tensor<4xf32>, %y: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<6x4xf32>, %h: tensor<4xf32>) -> tensor<6x4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %six = arith.constant 6 : index
  %none = tensor.empty() : tensor<6x4xf32>
  %r:2 = scf.for %i = %zero to %six step %one iter_args(%p = %h, %s = %none) -> (tensor<4xf32>, tensor<6x4xf32>) {
    %d = tensor.empty() : tensor<4xf32>
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<6x4xf32> to tensor<4xf32>
    %sum = func.call @add(%row, %p, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %next = func.call @k(%sum, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %place = tensor.extract_slice %s[%i, 0] [1, 4] [1, 1] : tensor<6x4xf32> to tensor<4xf32>
    %made = func.call @k(%sum, %place) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %with = tensor.insert_slice %made into %s[%i, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<6x4xf32>
    scf.yield %next, %with : tensor<4xf32>, tensor<6x4xf32>
  }
  return %r#1 : tensor<6x4xf32>
}

// -----

// A loop with a condition carries scalars beside its tensors. Here the iteration writes a value that it still reads,
// which needs a copy. A scalar that kernels read is stored for them.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[Y:.*]]: memref<4xf32>
// CHECK: memref.copy %[[X]], %[[Y]]
// CHECK: scf.while (%[[N:.*]] = %{{.*}}) : (i64) -> i64 {
// CHECK:   %[[EARLY:.*]] = arith.cmpi slt, %[[N]], %{{.*}}
// CHECK:   scf.condition(%[[EARLY]]) %[[N]] : i64
// CHECK: } do {
// CHECK: ^bb0(%[[M:.*]]: i64):
// CHECK:   memref.store %[[M]], %[[SCALAR:.*]][] : memref<i64>
// CHECK:   call @scale(%[[Y]], %[[SCALAR]], %[[NEW:[a-z0-9_]+]])
// CHECK:   %[[NEXT:.*]] = arith.addi %[[M]]
// CHECK:   memref.copy %[[NEW]], %[[Y]]
// CHECK:   scf.yield %[[NEXT]] : i64
func.func private @scale(%x: tensor<4xf32>, %n: tensor<i64>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %six = arith.constant 6 : i64
  %r:2 = scf.while (%n = %zero, %p = %x) : (i64, tensor<4xf32>) -> (i64, tensor<4xf32>) {
    %early = arith.cmpi slt, %n, %six : i64
    scf.condition(%early) %n, %p : i64, tensor<4xf32>
  } do {
  ^bb0(%n: i64, %p: tensor<4xf32>):
    %t = tensor.from_elements %n : tensor<i64>
    %d = tensor.empty() : tensor<4xf32>
    %0 = func.call @scale(%p, %t, %d) : (tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> tensor<4xf32>
    %next = arith.addi %n, %one : i64
    scf.yield %next, %0 : i64, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
