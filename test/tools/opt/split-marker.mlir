// RUN: stepwell-opt %s --split-input-file="//#"HERE | FileCheck %s

// CHECK: func.func private @one
func.func private @one()
// CHECK: {{^}}// -----
//#HERE
// CHECK: func.func private @one
func.func private @one()
