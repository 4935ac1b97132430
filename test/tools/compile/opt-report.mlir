// RUN: stepwell-compile %s -o %t.stw --opt-report=json 2> %t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=MADE < %t.err
// RUN: stepwell-compile %s -o %t.stw --opt-report | FileCheck %s --check-prefix=TEXT

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
// TEXT: {{^}}kernel {{.*}} bits {{.*}} est.

func.func @main(%x: tensor<512x1024xf32> {stepwell.name = "x"}) -> (tensor<512x1024xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.relu"(%x) : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %0 : tensor<512x1024xf32>
}
