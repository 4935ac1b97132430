// RUN: stepwell-opt %s --stepwell-expand-half-floats | FileCheck %s

// Conversions between f16 and f32 become integer arithmetic, of scalars and of vectors.

// CHECK-LABEL: func @extended
// CHECK-NOT:     f16 to f32
// CHECK:         arith.bitcast %{{.*}} : vector<8xf16> to vector<8xi16>
// CHECK:         arith.extui %{{.*}} : vector<8xi16> to vector<8xi32>
// CHECK:         %[[BITS:.*]] = arith.ori
// CHECK-NEXT:    %[[MADE:.*]] = arith.bitcast %[[BITS]] : vector<8xi32> to vector<8xf32>
// CHECK-NEXT:    return %[[MADE]]
func.func @extended(%x: vector<8xf16>) -> vector<8xf32> {
  %0 = arith.extf %x : vector<8xf16> to vector<8xf32>
  return %0 : vector<8xf32>
}

// CHECK-LABEL: func @rounded
// CHECK-NOT:     arith.truncf
// CHECK:         %[[SHORT:.*]] = arith.trunci %{{.*}} : i32 to i16
// CHECK-NEXT:    %[[MADE:.*]] = arith.bitcast %[[SHORT]] : i16 to f16
// CHECK-NEXT:    return %[[MADE]]
func.func @rounded(%x: f32) -> f16 {
  %0 = arith.truncf %x : f32 to f16
  return %0 : f16
}

// f64 is converted by f32.

// CHECK-LABEL: func @double
// CHECK:         %[[BITS:.*]] = arith.ori
// CHECK-NEXT:    %[[SINGLE:.*]] = arith.bitcast %[[BITS]] : i32 to f32
// CHECK-NEXT:    arith.extf %[[SINGLE]] : f32 to f64
// CHECK:         arith.truncf %{{.*}} : f64 to f32
func.func @double(%x: f16, %y: f64) -> (f64, f16) {
  %0 = arith.extf %x : f16 to f64
  %1 = arith.truncf %y : f64 to f16
  return %0, %1 : f64, f16
}

// Conversions of other types stay.

// CHECK-LABEL: func @others
// CHECK-NEXT:    arith.extf %{{.*}} : bf16 to f32
// CHECK-NEXT:    arith.truncf %{{.*}} : f64 to f32
// CHECK-NEXT:    return
func.func @others(%x: bf16, %y: f64) -> (f32, f32) {
  %0 = arith.extf %x : bf16 to f32
  %1 = arith.truncf %y : f64 to f32
  return %0, %1 : f32, f32
}
