// RUN: stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail --verify-diagnostics
// RUN: not stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail 2>&1 | FileCheck %s
// RUN: not stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail=way=bug 2>&1 | FileCheck %s --check-prefix=BUG
// RUN: env STEPWELL_DEBUG=1 not stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail=way=bug 2>&1 | FileCheck %s --check-prefix=DEBUG
// RUN: not stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail=way=invalid 2>&1 | FileCheck %s --check-prefix=INVALID
// RUN: not stepwell-opt %s --load-pass-plugin=%S/Inputs/failing_pass.py --test-fail --mlir-print-ir-after-failure 2>&1 | FileCheck %s --check-prefix=DUMP
// RUN: not stepwell-opt %s --load-pass-plugin=%S/no_such_pass.py 2>&1 | FileCheck %s --check-prefix=PLUGIN

// CHECK: failures.mlir:[[# @LINE + 18]]:8: error: pass 'test-fail' failed: there is no exp here
// CHECK-NEXT: %0 = "stepwell.exp"
// CHECK-NEXT: {{^       \^}}

// BUG: failures.mlir{{.*}} error: pass 'test-fail' failed: KeyError: 'oops' (this is a bug in the pass)
// BUG-NOT: Traceback

// DEBUG: this is a bug in the pass
// DEBUG: Traceback
// DEBUG: raise KeyError("oops")

// INVALID: failures.mlir:[[# @LINE + 7]]:8: error: pass 'test-fail' failed: it left invalid IR: {{.*}}(this is a bug in the pass)

// DUMP: // -----// IR Dump After FailPass Failed (test-fail) //----- //

// PLUGIN: failed to load passes from '{{.*}}no_such_pass.py'

func.func @main(%x: tensor<3xf32>) {
  %0 = "stepwell.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32> // expected-error {{there is no exp here}}
  return
}
