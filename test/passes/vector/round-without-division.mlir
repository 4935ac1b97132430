// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-round-without-division,canonicalize)' | FileCheck %s

// The bound of a relu is joined with that of the integers; the zero point is in the addend.

// CHECK-LABEL: func.func @quantized
// CHECK-DAG: %[[LOW:.*]] = arith.constant dense<0.000000e+00>
// CHECK-DAG: %[[HIGH:.*]] = arith.constant dense<3.0{{.*}}>
// CHECK-DAG: %[[RECIPROCAL:.*]] = arith.constant dense<42.19{{.*}}>
// CHECK-DAG: %[[SCALE:.*]] = arith.constant dense<-2.370000e-02>
// CHECK-DAG: %[[ROUND:.*]] = arith.constant dense<0x4B400080>
// CHECK-DAG: %[[BITS:.*]] = arith.constant dense<1262485504>
// CHECK: arith.cmpf olt, %arg0, %[[LOW]]
// CHECK: %[[RELU:.*]] = arith.select
// CHECK: arith.cmpf olt, %[[HIGH]], %[[RELU]]
// CHECK: %[[X:.*]] = arith.select
// CHECK: %[[FIRST:.*]] = arith.mulf %[[X]], %[[RECIPROCAL]]
// CHECK: %[[ERROR:.*]] = math.fma %[[FIRST]], %[[SCALE]], %[[X]]
// CHECK: %[[QUOTIENT:.*]] = math.fma %[[ERROR]], %[[RECIPROCAL]], %[[FIRST]]
// CHECK: %[[SUM:.*]] = arith.addf %[[QUOTIENT]], %[[ROUND]]
// CHECK: arith.subi {{.*}}, %[[BITS]]
// CHECK-NOT: arith.divf
func.func @quantized(%x: vector<16xf32>) -> vector<16xi32> {
  %scale = arith.constant dense<0.0237> : vector<16xf32>
  %zero_point = arith.constant dense<128.0> : vector<16xf32>
  %low = arith.constant dense<0.0> : vector<16xf32>
  %high = arith.constant dense<255.0> : vector<16xf32>
  %0 = arith.cmpf ogt, %low, %x : vector<16xf32>
  %1 = arith.select %0, %low, %x : vector<16xi1>, vector<16xf32>
  %2 = arith.divf %1, %scale : vector<16xf32>
  %3 = math.roundeven %2 : vector<16xf32>
  %4 = arith.addf %3, %zero_point : vector<16xf32>
  %5 = arith.cmpf ogt, %low, %4 : vector<16xf32>
  %6 = arith.select %5, %low, %4 : vector<16xi1>, vector<16xf32>
  %7 = arith.cmpf olt, %high, %6 : vector<16xf32>
  %8 = arith.select %7, %high, %6 : vector<16xi1>, vector<16xf32>
  %9 = arith.fptosi %8 : vector<16xf32> to vector<16xi32>
  return %9 : vector<16xi32>
}

// A power of two needs no correction; scalars are rewritten as vectors are.

// CHECK-LABEL: func.func @power_of_two
// CHECK: arith.mulf
// CHECK-NOT: math.fma
// CHECK: arith.bitcast %{{.*}} : f32 to i32
func.func @power_of_two(%x: f32) -> i32 {
  %scale = arith.constant 0.25 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %0 = arith.divf %x, %scale : f32
  %1 = math.roundeven %0 : f32
  %2 = arith.cmpf ogt, %low, %1 : f32
  %3 = arith.select %2, %low, %1 : f32
  %4 = arith.cmpf olt, %high, %3 : f32
  %5 = arith.select %4, %high, %3 : f32
  %6 = arith.fptosi %5 : f32 to i32
  return %6 : i32
}

// Without an upper bound the sum could have too few bits.

// CHECK-LABEL: func.func @negative_unbounded
// CHECK: arith.divf
// CHECK: math.roundeven
func.func @negative_unbounded(%x: f32) -> i32 {
  %scale = arith.constant 0.0237 : f32
  %low = arith.constant 0.0 : f32
  %0 = arith.divf %x, %scale : f32
  %1 = math.roundeven %0 : f32
  %2 = arith.cmpf ogt, %low, %1 : f32
  %3 = arith.select %2, %low, %1 : f32
  %4 = arith.fptosi %3 : f32 to i32
  return %4 : i32
}

// The reciprocal of a scale that is not constant is unknown.

// CHECK-LABEL: func.func @negative_scale
// CHECK: arith.divf
func.func @negative_scale(%x: f32, %scale: f32) -> i32 {
  %low = arith.constant 0.0 : f32
  %high = arith.constant 255.0 : f32
  %0 = arith.divf %x, %scale : f32
  %1 = math.roundeven %0 : f32
  %2 = arith.cmpf ogt, %low, %1 : f32
  %3 = arith.select %2, %low, %1 : f32
  %4 = arith.cmpf olt, %high, %3 : f32
  %5 = arith.select %4, %high, %3 : f32
  %6 = arith.fptosi %5 : f32 to i32
  return %6 : i32
}
