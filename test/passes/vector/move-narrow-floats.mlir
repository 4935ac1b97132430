// RUN: stepwell-opt %s --stepwell-move-narrow-floats | FileCheck %s

// CHECK-LABEL: llvm.func @select(
// CHECK-SAME: %[[C:.*]]: vector<4xi1>, %[[A:.*]]: vector<4xbf16>, %[[B:.*]]: vector<4xbf16>
// CHECK-DAG: %[[X:.*]] = llvm.bitcast %[[A]] : vector<4xbf16> to vector<4xi16>
// CHECK-DAG: %[[Y:.*]] = llvm.bitcast %[[B]] : vector<4xbf16> to vector<4xi16>
// CHECK: %[[S:.*]] = llvm.select %[[C]], %[[X]], %[[Y]] : vector<4xi1>, vector<4xi16>
// CHECK: llvm.bitcast %[[S]] : vector<4xi16> to vector<4xbf16>
llvm.func @select(%c: vector<4xi1>, %a: vector<4xbf16>, %b: vector<4xbf16>) -> vector<4xbf16> {
  %0 = llvm.select %c, %a, %b : vector<4xi1>, vector<4xbf16>
  llvm.return %0 : vector<4xbf16>
}

// CHECK-LABEL: llvm.func @masked(
// CHECK: llvm.intr.masked.load {{.*}} -> vector<4xi16>
// CHECK: llvm.intr.masked.store {{.*}} : vector<4xi16>
llvm.func @masked(%p: !llvm.ptr, %m: vector<4xi1>, %a: vector<4xbf16>) {
  %0 = llvm.intr.masked.load %p, %m, %a {alignment = 2 : i32} : (!llvm.ptr, vector<4xi1>, vector<4xbf16>) -> vector<4xbf16>
  llvm.intr.masked.store %0, %p, %m {alignment = 2 : i32} : vector<4xbf16>, vector<4xi1> into !llvm.ptr
  llvm.return
}

// CHECK-LABEL: llvm.func @negative_f32(
// CHECK-NOT: llvm.bitcast
llvm.func @negative_f32(%c: i1, %a: f32, %b: f32) -> f32 {
  %0 = llvm.select %c, %a, %b : i1, f32
  llvm.return %0 : f32
}
