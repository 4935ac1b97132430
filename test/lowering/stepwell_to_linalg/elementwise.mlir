// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s

// A chain becomes one op with one merged dimension; the result is computed in the destination.

// CHECK-LABEL: func.func private @chain(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>, %[[OUT:.*]]: tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK-DAG: %[[VIEW:.*]] = tensor.collapse_shape %[[OUT]] {{\[\[}}0, 1, 2]]
// CHECK-DAG: %[[FLAT:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1, 2]]
// CHECK: linalg.generic {{.*}} ins(%[[FLAT]] : tensor<64xf32>) outs(%[[VIEW]] : tensor<64xf32>)
// CHECK: arith.mulf
// CHECK: arith.cmpf ogt
// CHECK: arith.select
// CHECK-NOT: linalg.generic
func.func private @chain(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.mul"(%x, %x) : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %1 = "stepwell.relu"(%0) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %1 : tensor<2x4x8xf32>
}

// A dimension along which an operand is broadcast is not merged.

// CHECK-LABEL: func.func private @negative_broadcast(
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8xf32>) outs(%{{.*}} : tensor<8x8xf32>)
func.func private @negative_broadcast(%x: tensor<2x4x8xf32>, %b: tensor<1x8xf32>) -> tensor<2x4x8xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.add"(%x, %b) : (tensor<2x4x8xf32>, tensor<1x8xf32>) -> tensor<2x4x8xf32>
  return %0 : tensor<2x4x8xf32>
}

// A bool is a byte in memory and a bit in computations.

// CHECK-LABEL: func.func private @bools(
// CHECK-SAME: %{{.*}}: tensor<8xi8>, %{{.*}}: tensor<8xf32>, %{{.*}}: tensor<8xi8>) -> tensor<8xi8>
// CHECK-DAG: arith.trunci %{{.*}} : i8 to i1
// CHECK-DAG: arith.cmpf olt
// CHECK: arith.andi %{{.*}} : i1
// CHECK: arith.extui %{{.*}} : i1 to i8
func.func private @bools(%c: tensor<8xi1>, %x: tensor<8xf32>) -> tensor<8xi1> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.less"(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  %1 = "stepwell.and"(%c, %0) : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  return %1 : tensor<8xi1>
}

// Signedness is a property of ops, not of types.

// CHECK-LABEL: func.func private @unsigned(
// CHECK-SAME: tensor<8xi32>
// CHECK: arith.divui
func.func private @unsigned(%x: tensor<8xui32>, %y: tensor<8xui32>) -> tensor<8xui32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.div"(%x, %y) : (tensor<8xui32>, tensor<8xui32>) -> tensor<8xui32>
  return %0 : tensor<8xui32>
}

// f16 is computed in f32 and rounded once per op.

// CHECK-LABEL: func.func private @narrow(
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: math.tanh %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func private @narrow(%x: tensor<8xf16>) -> tensor<8xf16> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.tanh"(%x) : (tensor<8xf16>) -> tensor<8xf16>
  return %0 : tensor<8xf16>
}

// Callers pass the destination, and record which types changed.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[C:.*]]: tensor<8xi8> {stepwell.dtype = i1}, %[[X:.*]]: tensor<8xf32>) -> (tensor<8xi8> {stepwell.dtype = i1})
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<8xi8>
// CHECK: call @bools(%[[C]], %[[X]], %[[EMPTY]])
func.func @main(%c: tensor<8xi1>, %x: tensor<8xf32>) -> tensor<8xi1> {
  %0 = func.call @bools(%c, %x) : (tensor<8xi1>, tensor<8xf32>) -> tensor<8xi1>
  return %0 : tensor<8xi1>
}
