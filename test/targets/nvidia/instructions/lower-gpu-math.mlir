// RUN: stepwell-opt %s --stepwell-lower-gpu-math | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: llvm.func @floats
  // CHECK-SAME: (%[[X:.+]]: f32, %[[Y:.+]]: f32)
  llvm.func @floats(%x: f32, %y: f32) -> f32 {
    // CHECK-NEXT: %[[A:.+]] = llvm.call_intrinsic "llvm.fabs"(%[[X]]) : (f32) -> f32
    %0 = math.absf %x : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.ceil"(%[[A]])
    %1 = math.ceil %0 : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.floor"
    %2 = math.floor %1 : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.round"(
    %3 = math.round %2 : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.roundeven"
    %4 = math.roundeven %3 : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.trunc"
    %5 = math.trunc %4 : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.exp2"
    %6 = math.exp2 %5 : f32
    // CHECK-NEXT: %[[S:.+]] = llvm.call_intrinsic "llvm.sqrt"
    %7 = math.sqrt %6 : f32
    // CHECK-NEXT: %[[C:.+]] = llvm.call_intrinsic "llvm.copysign"(%[[S]], %[[Y]]) : (f32, f32) -> f32
    %8 = math.copysign %7, %y : f32
    // CHECK-NEXT: llvm.call_intrinsic "llvm.fma"(%[[C]], %[[X]], %[[Y]]) : (f32, f32, f32) -> f32
    %9 = math.fma %8, %x, %y : f32
    llvm.return %9 : f32
  }

  // The intrinsic rsqrt is not one of LLVM's.
  // CHECK-LABEL: llvm.func @rsqrt
  // CHECK-NEXT: %[[ONE:.+]] = arith.constant dense<1.000000e+00> : vector<4xf16>
  // CHECK-NEXT: %[[ROOT:.+]] = llvm.call_intrinsic "llvm.sqrt"(%{{.+}}) : (vector<4xf16>) -> vector<4xf16>
  // CHECK-NEXT: arith.divf %[[ONE]], %[[ROOT]]
  llvm.func @rsqrt(%x: vector<4xf16>) -> vector<4xf16> {
    %0 = math.rsqrt %x : vector<4xf16>
    llvm.return %0 : vector<4xf16>
  }

  // CHECK-LABEL: llvm.func @integers
  // CHECK-SAME: (%[[X:.+]]: i32)
  llvm.func @integers(%x: i32) -> i32 {
    // CHECK-NEXT: %[[ZERO:.+]] = arith.constant 0 : i32
    // CHECK-NEXT: %[[MINUS:.+]] = arith.subi %[[ZERO]], %[[X]]
    // CHECK-NEXT: %[[A:.+]] = arith.maxsi %[[X]], %[[MINUS]]
    %0 = math.absi %x : i32
    // CHECK-NEXT: %[[B:.+]] = llvm.call_intrinsic "llvm.ctpop"(%[[A]]) : (i32) -> i32
    %1 = math.ctpop %0 : i32
    // A zero has 32 zeros: the result must be defined for it.
    // CHECK-NEXT: %[[FALSE:.+]] = llvm.mlir.constant(false) : i1
    // CHECK-NEXT: %[[C:.+]] = llvm.call_intrinsic "llvm.ctlz"(%[[B]], %[[FALSE]]) : (i32, i1) -> i32
    %2 = math.ctlz %1 : i32
    // CHECK-NEXT: %[[FALSE:.+]] = llvm.mlir.constant(false) : i1
    // CHECK-NEXT: llvm.call_intrinsic "llvm.cttz"(%[[C]], %[[FALSE]])
    %3 = math.cttz %2 : i32
    llvm.return %3 : i32
  }

  // CHECK-LABEL: llvm.func @negative_arith
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: llvm.return
  llvm.func @negative_arith(%x: f32) -> f32 {
    %0 = arith.mulf %x, %x : f32
    llvm.return %0 : f32
  }
}

// The host's code is not lowered for a GPU.
// CHECK-LABEL: func.func @negative_host
// CHECK-NEXT: math.sqrt
func.func @negative_host(%x: f32) -> f32 {
  %0 = math.sqrt %x : f32
  return %0 : f32
}
