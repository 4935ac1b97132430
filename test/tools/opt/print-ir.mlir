// RUN: stepwell-opt %s --pass-pipeline="builtin.module(func.func(cse,canonicalize),stepwell-dce)" --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: stepwell-opt %s --cse --stepwell-dce --mlir-print-ir-before=stepwell-dce --mlir-elide-elementsattrs-if-larger=2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: stepwell-opt %s --cse --canonicalize --stepwell-dce --mlir-print-ir-after-all --mlir-print-ir-after-change -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: stepwell-opt %s --pass-pipeline="builtin.module(func.func(cse))" --mlir-print-ir-after=cse --mlir-print-ir-module-scope --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: rm -rf %t && stepwell-opt %s --pass-pipeline="builtin.module(func.func(cse),stepwell-dce)" --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t -o /dev/null
// RUN: FileCheck %s --check-prefix=TREE < %t/builtin_module_no-symbol-name/func_func_f/0_0_cse.mlir
// RUN: cat %t/builtin_module_no-symbol-name/1_stepwell-dce.mlir
// RUN: not stepwell-opt %s --mlir-print-ir-after=ces 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// AFTER: // -----// IR Dump After CSE (cse) //----- //
// AFTER-NEXT: func.func @f
// AFTER: // -----// IR Dump After Canonicalizer (canonicalize) //----- //
// AFTER: // -----// IR Dump After CSE (cse) //----- //
// AFTER-NEXT: func.func @g
// AFTER: // -----// IR Dump After DcePass (stepwell-dce) //----- //
// AFTER-NEXT: module {

// BEFORE-NOT: IR Dump Before CSE
// BEFORE: // -----// IR Dump Before DcePass (stepwell-dce) //----- //
// BEFORE: dense_resource<__elided__>

// CHANGE: IR Dump After CSE
// CHANGE-NOT: IR Dump After DcePass

// SCOPE: // -----// IR Dump After CSE (cse) ('func.func' operation: @f) //----- //
// SCOPE-NEXT: module {

// TREE: // -----// IR Dump After CSE (cse) //----- //

// UNKNOWN: Cannot find option named 'ces'!

func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
func.func @g() -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %c : tensor<4xf32>
}
