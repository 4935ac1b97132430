// RUN: stepwell-opt %s -allow-unregistered-dialect -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(stepwell-plan-memory,stepwell-plan-workspaces,canonicalize,cse)' | FileCheck %s

// A kernel's temporaries are in the arena where it is free during the call: here after the kernel's operands.

// CHECK: stepwell.arena_bytes = 384 : i64, stepwell.arena_lower_bound = 384 : i64
// CHECK-SAME: {bytes = 320 : i64, first = 2 : i64, last = 2 : i64, name = "large.workspace", offset = 64 : i64}
// CHECK-LABEL: func.func private @large(
// CHECK-SAME: %[[WORK:[a-z0-9]*]]: memref<320xi8> {llvm.noalias}) attributes {stepwell.workspace_bytes = 320 : i64}
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C256:.*]] = arith.constant 256 : index
// CHECK: %[[A:.*]] = memref.view %[[WORK]][%[[C0]]][] : memref<320xi8> to memref<50xf32>
// CHECK: %[[B:.*]] = memref.view %[[WORK]][%[[C256]]][] : memref<320xi8> to memref<3xi8>
// CHECK: "test.use"(%[[A]], %[[B]])
// CHECK-NOT: memref.dealloc
// CHECK: func.func private @compiled(memref<4xf32> {llvm.noalias, llvm.readonly}, memref<4xf32> {llvm.noalias}, memref<64xi8> {llvm.noalias})
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[ARENA:[a-z0-9]*]]: memref<384xi8>)
// CHECK: %[[SPACE:.*]] = memref.view %[[ARENA]][%{{.*}}][] : memref<384xi8> to memref<320xi8>
// CHECK: call @large(%{{.*}}, %{{.*}}, %[[SPACE]])
func.func private @small(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
func.func private @large(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %a = memref.alloc() : memref<50xf32>
  %b = memref.alloc() : memref<3xi8>
  "test.use"(%a, %b) : (memref<50xf32>, memref<3xi8>) -> ()
  memref.dealloc %a : memref<50xf32>
  memref.dealloc %b : memref<3xi8>
  return %out : tensor<4xf32>
}
func.func private @compiled(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
  attributes {stepwell.workspace_bytes = 64 : i64}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %d = tensor.empty() : tensor<4xf32>
  %0 = func.call @small(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @large(%0, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = func.call @compiled(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A workspace that fits no gap unless the second tensor moves.

// CHECK: stepwell.arena_bytes = 192 : i64, stepwell.arena_lower_bound = 192 : i64
// CHECK-LABEL: func.func @main(
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
// CHECK: %[[P:.+]] = memref.view %{{.+}}[%[[C0]]][] : memref<192xi8> to memref<16xf32>
// CHECK: call @k(%{{.+}}, %[[P]])
// CHECK: %[[Q:.+]] = memref.view %{{.+}}[%[[C128]]][] : memref<192xi8> to memref<16xf32>
// CHECK: call @k(%[[P]], %[[Q]])
// CHECK: %[[SPACE:.+]] = memref.view %{{.+}}[%[[C0]]][] : memref<192xi8> to memref<128xi8>
// CHECK: call @compiled(%[[Q]], %{{.+}}, %[[SPACE]])
func.func private @k(%x: tensor<16xf32>, %out: tensor<16xf32>) -> tensor<16xf32>
func.func private @compiled(%x: tensor<16xf32>, %out: tensor<16xf32>) -> tensor<16xf32>
  attributes {stepwell.workspace_bytes = 128 : i64}
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %d = tensor.empty() : tensor<16xf32>
  %0 = func.call @k(%x, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %1 = func.call @k(%0, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %2 = func.call @compiled(%1, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %2 : tensor<16xf32>
}

// -----

// Negative: nothing to plan.

// CHECK-LABEL: func.func private @negative_stack(
// CHECK-SAME: %{{[a-z0-9]*}}: memref<4xf32> {llvm.noalias})
// CHECK: memref.alloca()
func.func private @negative_stack(%out: tensor<4xf32>) -> tensor<4xf32> {
  %a = memref.alloca() : memref<50xf32>
  "test.use"(%a) : (memref<50xf32>) -> ()
  return %out : tensor<4xf32>
}
func.func @main() -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %0 = func.call @negative_stack(%d) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
