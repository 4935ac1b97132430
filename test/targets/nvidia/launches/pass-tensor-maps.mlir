// RUN: stepwell-opt %s --stepwell-pass-tensor-maps | FileCheck %s

// The last argument of @k is a tensor map; @negative_other has none.

// CHECK: llvm.func @k(%{{.+}}: !llvm.ptr {llvm.noalias}, %{{.+}}: !llvm.ptr
// CHECK-SAME: {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
// CHECK-NOT: stepwell.tensor_maps
// CHECK: llvm.func @negative_other(%{{[^ ]+}}: !llvm.ptr) attributes
gpu.module @m {
  llvm.func @k(%x: !llvm.ptr {llvm.noalias}, %map: !llvm.ptr)
      attributes {gpu.kernel, nvvm.kernel, stepwell.tensor_maps = 1 : i64} {
    llvm.return
  }
  llvm.func @negative_other(%x: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
