// RUN: stepwell-opt %s --pass-pipeline="builtin.module(stepwell-lower-vectors)" | FileCheck %s

// Element 15 - (j + lane) of a row, so that the load begins 3 elements before the first lane's one.
// CHECK-LABEL: func.func @backwards
// CHECK-SAME: (%[[X:.*]]: memref<8x16xf32>, %[[I:.*]]: index, %[[J:.*]]: index)
// CHECK-NOT: vector.gather
// CHECK: %[[START:.*]] = arith.subi %c12, %[[J]]
// CHECK: %[[V:.*]] = vector.load %[[X]][%[[I]], %[[START]]]
// CHECK: vector.shuffle %[[V]], %[[V]] [3, 2, 1, 0]
func.func @backwards(%x: memref<8x16xf32>, %i: index, %j: index) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %all = arith.constant dense<true> : vector<4xi1>
  %last = arith.constant dense<15> : vector<4xindex>
  %step = vector.step : vector<4xindex>
  %wide = vector.broadcast %j : index to vector<4xindex>
  %lanes = arith.addi %wide, %step : vector<4xindex>
  %from_the_end = arith.subi %last, %lanes : vector<4xindex>
  %v = vector.gather %x[%i, %c0] [%from_the_end], %all, %zero : memref<8x16xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  return %v : vector<4xf32>
}

// CHECK-LABEL: func.func @negative_with_a_mask
// CHECK: vector.gather
func.func @negative_with_a_mask(%x: memref<16xf32>, %mask: vector<4xi1>) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %last = arith.constant dense<15> : vector<4xindex>
  %step = vector.step : vector<4xindex>
  %from_the_end = arith.subi %last, %step : vector<4xindex>
  %v = vector.gather %x[%c0] [%from_the_end], %mask, %zero : memref<16xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  return %v : vector<4xf32>
}

// CHECK-LABEL: func.func @negative_with_gaps
// CHECK: vector.gather
func.func @negative_with_gaps(%x: memref<16xf32>) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %all = arith.constant dense<true> : vector<4xi1>
  %last = arith.constant dense<15> : vector<4xindex>
  %step = vector.step : vector<4xindex>
  %twice = arith.addi %step, %step : vector<4xindex>
  %from_the_end = arith.subi %last, %twice : vector<4xindex>
  %v = vector.gather %x[%c0] [%from_the_end], %all, %zero : memref<16xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  return %v : vector<4xf32>
}

// CHECK-LABEL: func.func @negative_from_memory
// CHECK: vector.gather
func.func @negative_from_memory(%x: memref<16xf32>, %indices: vector<4xindex>) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<4xf32>
  %all = arith.constant dense<true> : vector<4xi1>
  %v = vector.gather %x[%c0] [%indices], %all, %zero : memref<16xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  return %v : vector<4xf32>
}
