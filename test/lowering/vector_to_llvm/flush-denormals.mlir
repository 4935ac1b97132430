// RUN: stepwell-opt %s --stepwell-flush-denormals=target=x86-64-v3 | FileCheck %s
// RUN: stepwell-opt %s --stepwell-flush-denormals=target=aarch64 | FileCheck %s --check-prefix=ARM

// The mode is restored before every return.
// CHECK-LABEL: llvm.func @padding
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%[[BEFORE:.*]]) :
// CHECK:         %[[OLD:.*]] = llvm.load %[[BEFORE]]
// CHECK:         %[[BITS:.*]] = llvm.mlir.constant(32832 : i32)
// CHECK:         %[[NEW:.*]] = llvm.or %[[OLD]], %[[BITS]] : i32
// CHECK:         llvm.store %[[NEW]], %[[NOW:.*]] : i32
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[NOW]])
// CHECK:         llvm.cond_br
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[BEFORE]])
// CHECK-NEXT:    llvm.return
// CHECK:         llvm.fmul
// CHECK:         llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[BEFORE]])
// CHECK-NEXT:    llvm.return

// ARM-LABEL: llvm.func @padding
// ARM:         %[[BEFORE:.*]] = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
// ARM:         %[[NEW:.*]] = llvm.or %[[BEFORE]], %{{.*}} : i64
// ARM:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[NEW]])
// ARM:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[BEFORE]])
// ARM-NEXT:    llvm.return
// ARM:         llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%[[BEFORE]])
// ARM-NEXT:    llvm.return
llvm.func @padding(%x: !llvm.ptr, %is_none: i1) attributes {stepwell.reads_padding} {
  llvm.cond_br %is_none, ^none, ^some
^none:
  llvm.return
^some:
  %0 = llvm.load %x : !llvm.ptr -> f32
  %1 = llvm.fmul %0, %0 : f32
  llvm.store %1, %x : f32, !llvm.ptr
  llvm.return
}

// Without padding in any tensor, denormal numbers are kept, as the model defines.
// CHECK-LABEL: llvm.func @negative_data
// CHECK-NOT:     llvm.call_intrinsic
// ARM-LABEL: llvm.func @negative_data
// ARM-NOT:     llvm.call_intrinsic
llvm.func @negative_data(%x: !llvm.ptr) {
  %0 = llvm.load %x : !llvm.ptr -> f32
  llvm.store %0, %x : f32, !llvm.ptr
  llvm.return
}

// A declaration is not changed.
// CHECK-LABEL: llvm.func @negative_declaration
llvm.func @negative_declaration(!llvm.ptr) attributes {stepwell.reads_padding}
