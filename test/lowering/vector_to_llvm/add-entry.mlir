// RUN: stepwell-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-add-entry)' | FileCheck %s

// Names of arguments are removed for LLVM.

// CHECK: llvm.func internal @main(%{{[^ ]*}}: !llvm.ptr, %{{[^ ]*}}: !llvm.ptr) {
// CHECK-LABEL: llvm.func @stepwell_main(
// CHECK-SAME: %[[TABLE:.*]]: !llvm.ptr {llvm.noalias, llvm.readonly}) {
// CHECK: %[[P0:.*]] = llvm.getelementptr inbounds %[[TABLE]][0]
// CHECK: %[[X:.*]] = llvm.load %[[P0]] invariant
// CHECK: %[[P1:.*]] = llvm.getelementptr inbounds %[[TABLE]][1]
// CHECK: %[[Y:.*]] = llvm.load %[[P1]] invariant
// CHECK: llvm.call @main(%[[X]], %[[Y]])
llvm.func @main(%x: !llvm.ptr {stepwell.name = "x"}, %y: !llvm.ptr) {
  llvm.return
}

// -----

// expected-error @+1 {{there is no function @main}}
module {
  llvm.func @negative_other()
}
