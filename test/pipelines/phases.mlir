// RUN: stepwell-opt %s --compile-to=graph --target=x86-64-v4 | FileCheck %s --check-prefix=GRAPH
// RUN: stepwell-opt %s --compile-to=kernels --target=x86-64-v4 | FileCheck %s --check-prefix=KERNELS
// RUN: stepwell-opt %s --compile-to=tiled --target=x86-64-v4 | FileCheck %s --check-prefix=TILED
// RUN: stepwell-opt %s --compile-to=vector --target=x86-64-v4 | FileCheck %s --check-prefix=VECTOR
// RUN: stepwell-opt %s --compile-to=memref --target=x86-64-v4 | FileCheck %s --check-prefix=MEMREF
// RUN: stepwell-opt %s --compile-to=llvm --target=x86-64-v4 | FileCheck %s --check-prefix=LLVM
// RUN: stepwell-opt %s --compile-to=kernels --target=x86-64-v4 -o %t.mlir
// RUN: stepwell-opt %t.mlir --compile-from=kernels --compile-to=vector --target=x86-64-v4 | FileCheck %s --check-prefix=VECTOR

// A dense layer and a softmax are lowered through all levels.

// GRAPH-LABEL: func.func @init
// GRAPH:         stepwell.transpose
// GRAPH-LABEL: func.func @main
// GRAPH:         stepwell.packed_matmul
// GRAPH-NEXT:    stepwell.relu
// GRAPH-NEXT:    stepwell.softmax

// KERNELS-LABEL: func.func @main
// KERNELS-NOT:     stepwell.relu
// KERNELS:         %[[H:.+]] = call @[[DENSE:[^(]+]](
// KERNELS:         call @[[SOFTMAX:[^(]+]](%[[H]], %{{.+}})
// KERNELS:       func.func private @[[DENSE]]
// KERNELS-SAME:    class = "contraction"
// KERNELS:         linalg.generic
// KERNELS:       func.func private @[[SOFTMAX]]
// KERNELS-SAME:    class = "reduction"

// TILED:       func.func private @
// TILED-SAME:    stepwell.schedule
// TILED:         scf.for

// VECTOR-NOT:  linalg.
// VECTOR:      vector.fma
// VECTOR-NOT:  math.exp
// VECTOR-NOT:  linalg.

// MEMREF:      stepwell.arena_bytes = [[$ARENA:[0-9]+]]
// MEMREF-LABEL: func.func @main
// MEMREF-SAME:   memref<[[$ARENA]]xi8>
// MEMREF:        memref.view
// MEMREF:        call @
// MEMREF-NOT:    memref.alloc(

// LLVM:        llvm.func internal @main
// LLVM:        llvm.func @stepwell_main(%{{.+}}: !llvm.ptr
// LLVM-NOT:    vector.

func.func @main(%x: tensor<16x32xf32> {stepwell.name = "x"}) -> (tensor<16x64xf32> {stepwell.name = "y"}) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 32, 64>, dtype = f32} : () -> tensor<32x64xf32> loc("w")
  %0 = "stepwell.matmul"(%x, %w) : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32> loc("MatMul_0")
  %1 = "stepwell.relu"(%0) : (tensor<16x64xf32>) -> tensor<16x64xf32> loc("Relu_1")
  %2 = "stepwell.softmax"(%1) {axis = -1 : i64} : (tensor<16x64xf32>) -> tensor<16x64xf32> loc("Softmax_2")
  return %2 : tensor<16x64xf32> loc("Softmax_2")
}
