// RUN: stepwell-opt %s --compile-to=graph | FileCheck %s --check-prefixes=CHECK,GRAPH
// RUN: stepwell-opt %s --compile-to=kernels --target=x86-64-v3 -o %t && FileCheck %s --check-prefixes=CHECK,KERNELS < %t
// RUN: stepwell-opt %t --compile-from=kernels --compile-to=llvm --target=x86-64-v3 | FileCheck %s --check-prefix=LLVM
// RUN: stepwell-opt %s --compile-to=kernels --mlir-print-ir-after=stepwell-form-kernels -o /dev/null 2>&1 | FileCheck %s --check-prefix=DUMP
// RUN: not stepwell-opt %s --compile-from=llvm --compile-to=graph 2>&1 | FileCheck %s --check-prefix=BACK

// CHECK: func.func @main
// GRAPH: stepwell.relu
// KERNELS: call @[[KERNEL:kernel_[0-9a-f]+]]
// KERNELS: func.func private @[[KERNEL]]
// LLVM: llvm.func internal @main
// DUMP: // -----// IR Dump After FormKernelsPass (stepwell-form-kernels) //----- //
// BACK: phase 'graph' comes before 'llvm'

func.func @main(%x: tensor<4x8xf32> {stepwell.name = "x"}) -> (tensor<4x8xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("relu")
  return %0 : tensor<4x8xf32>
}
