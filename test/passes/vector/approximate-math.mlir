// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-approximate-math,canonicalize)' | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-approximate-math{has-scalef=true},canonicalize)' | FileCheck %s --check-prefix=SCALEF

// CHECK-LABEL: func.func @vectors
// CHECK-NOT: math.exp
// CHECK: math.fma %{{.*}} : vector<16xf32>
// CHECK: arith.shli %{{.*}} : vector<16xi32>
// CHECK-NOT: math.exp
// SCALEF-LABEL: func.func @vectors
// SCALEF: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
func.func @vectors(%x: vector<16xf32>) -> vector<16xf32> {
  %0 = math.exp %x : vector<16xf32>
  return %0 : vector<16xf32>
}

// Two registers are scaled one by one.

// SCALEF-LABEL: func.func @pairs
// SCALEF-COUNT-2: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.pd.512"{{.*}} vector<8xf64>
func.func @pairs(%x: vector<16xf64>) -> vector<16xf64> {
  %0 = math.exp %x : vector<16xf64>
  return %0 : vector<16xf64>
}

// A partial register is not scaled.

// SCALEF-LABEL: func.func @negative_scalef
// SCALEF-NOT: llvm.call_intrinsic
// SCALEF: return
func.func @negative_scalef(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.exp %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// CHECK-LABEL: func.func @scalars
// CHECK-NOT: math.log
// CHECK: math.fma %{{.*}} : f64
func.func @scalars(%x: f64) -> f64 {
  %0 = math.log %x : f64
  return %0 : f64
}

// CHECK-LABEL: func.func @halves
// CHECK: arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK-NOT: math.tanh
// CHECK: arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
func.func @halves(%x: vector<16xf16>) -> vector<16xf16> {
  %0 = math.tanh %x : vector<16xf16>
  return %0 : vector<16xf16>
}

// CHECK-LABEL: func.func @square
// CHECK-SAME: %[[X:.*]]: vector<16xf32>
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: return %[[Y]]
func.func @square(%x: vector<16xf32>) -> vector<16xf32> {
  %two = arith.constant dense<2.0> : vector<16xf32>
  %0 = math.powf %x, %two : vector<16xf32>
  return %0 : vector<16xf32>
}

// A function with a hardware instruction stays.

// CHECK-LABEL: func.func @negative_sqrt
// CHECK: math.sqrt
func.func @negative_sqrt(%x: vector<16xf32>) -> vector<16xf32> {
  %0 = math.sqrt %x : vector<16xf32>
  return %0 : vector<16xf32>
}
