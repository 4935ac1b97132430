// RUN: stepwell-opt %s | stepwell-opt | FileCheck %s

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic(
    %a0: tensor<4x8xf32>, %a1: tensor<8xf32>) {
  // CHECK: "stepwell.abs"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = "stepwell.abs"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.add"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = "stepwell.add"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.ceil"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "stepwell.ceil"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.cos"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "stepwell.cos"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.div"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = "stepwell.div"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.erf"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = "stepwell.erf"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.exp"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "stepwell.exp"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.floor"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "stepwell.floor"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.log"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = "stepwell.log"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.maximum"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %9 = "stepwell.maximum"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.minimum"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %10 = "stepwell.minimum"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.mod"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %11 = "stepwell.mod"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.mul"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %12 = "stepwell.mul"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.neg"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %13 = "stepwell.neg"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.pow"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %14 = "stepwell.pow"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.reciprocal"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %15 = "stepwell.reciprocal"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.round"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %16 = "stepwell.round"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.rsqrt"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %17 = "stepwell.rsqrt"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sign"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %18 = "stepwell.sign"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sin"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %19 = "stepwell.sin"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sqrt"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %20 = "stepwell.sqrt"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.sub"(%{{[^ ,)]+}}, %{{[^ ,)]+}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %21 = "stepwell.sub"(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: "stepwell.tanh"(%{{[^ ,)]+}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %22 = "stepwell.tanh"(%a0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
