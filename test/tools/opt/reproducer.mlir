// RUN: rm -f %t.mlir
// RUN: not stepwell-opt %s --pass-pipeline="builtin.module(cse,func.func(canonicalize{top-down=false}),func.func(affine-loop-unroll{unroll-factor=2}),one-shot-bufferize)" --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: FileCheck %s < %t.mlir
// RUN: not stepwell-opt --run-reproducer %t.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: stepwell-opt %s --cse --mlir-pass-pipeline-crash-reproducer=%t.none && not ls %t.none
// RUN: stepwell-opt --run-reproducer %s | FileCheck %s --check-prefix=NONE

// ERROR: error: {{.*}}op was not bufferized
// ERROR: Failures have been detected while processing an MLIR pass pipeline
// ERROR: reproducer generated at
// AGAIN: error: {{.*}}op was not bufferized

// If the input has no reproducer, it is printed.
// NONE: stepwell.exp

// CHECK: stepwell.exp
// CHECK: {-#
// CHECK-NEXT: external_resources: {
// CHECK-NEXT:   mlir_reproducer: {
// CHECK-NEXT:     pipeline: "builtin.module(cse, func.func(canonicalize{{.*}}top-down=false},affine-loop-unroll{
// CHECK-NEXT:     disable_threading: false,
// CHECK-NEXT:     verify_each: true
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: #-}

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
