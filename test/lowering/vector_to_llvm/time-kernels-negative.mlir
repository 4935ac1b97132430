// RUN: not stepwell-opt %s --stepwell-time-kernels 2>&1 | FileCheck %s

// CHECK: there is no function @main
llvm.func @negative_no_main()
