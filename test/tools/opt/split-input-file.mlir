// RUN: stepwell-opt %s --split-input-file --cse | FileCheck %s
// RUN: not stepwell-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: stepwell-opt %s --split-input-file --output-split-marker=//NEXT | FileCheck %s --check-prefix=NEXT

// WHOLE: split-input-file.mlir:[[# @LINE + 13]]:1: error: redefinition of symbol named 'one'
// WHOLE-NEXT: func.func private @one()
// WHOLE-NEXT: {{^}}^

// CHECK: func.func private @one
// NEXT: func.func private @one
// NEXT: {{^}}//NEXT
func.func private @one()

// CHECK: {{^}}// -----
// -----

// CHECK: func.func private @one
func.func private @one()
