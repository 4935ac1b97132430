// RUN: stepwell-compile %s -o %t.stw --opt-report=json 2> %t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=MADE < %t.err
// RUN: stepwell-compile %s -o %t.stw --opt-report | FileCheck %s --check-prefix=TEXT
// RUN: stepwell-compile %s -o %t.stw --remarks-output-file=%t.yaml && FileCheck %s --check-prefix=REMARKS < %t.yaml
// RUN: not stepwell-compile %s -o %t.stw --remarks-output-file=%s 2>&1 | FileCheck %s --check-prefix=INPUT

// CHECK: "schema": 1,
// CHECK: "summary": [],
// CHECK: "peaks": {
// CHECK-NEXT: "source": "{{nominal|measured}}",
// CHECK: "kernels": [
// CHECK: "class": "elementwise",
// CHECK: "vector_bits": {{128|256|512}},
// CHECK: "scalar_share": 0.0,
// CHECK: "serial": "",
// CHECK: "bound": "memory"
// MADE: opt-report.mlir{{.*}}.stw: {{.*}} MB, made in
// TEXT: estimated {{.*}} peaks of
// REMARKS: --- !Passed
// REMARKS-NEXT: Pass:            "stepwell-canonicalize"
// REMARKS-NEXT: Name:            "DropPair"
// REMARKS-NEXT: Function:        "twice"
// INPUT: --remarks-output-file
// TEXT: {{^}}kernel {{.*}} bits {{.*}} est.

func.func @main(%x: tensor<512x1024xf32> {stepwell.name = "x"}) -> (tensor<512x1024xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.relu"(%x) : (tensor<512x1024xf32>) -> tensor<512x1024xf32> loc("once")
  %1 = "stepwell.relu"(%0) : (tensor<512x1024xf32>) -> tensor<512x1024xf32> loc("twice")
  return %1 : tensor<512x1024xf32>
}
