// RUN: stepwell-opt %s --split-input-file --stepwell-name-kernels | FileCheck %s
// RUN: stepwell-opt %s --split-input-file --stepwell-name-kernels | FileCheck %s --check-prefix=SAME
// RUN: stepwell-opt %s --split-input-file --stepwell-name-kernels > %t
// RUN: stepwell-opt %s --split-input-file --stepwell-name-kernels=target=cuda:sm_80 >> %t
// RUN: FileCheck %s --check-prefix=TARGETS < %t

// Kernels that compute the same share a function, whatever their names and locations are.
// CHECK-LABEL: func.func @main
// CHECK: call @[[K:kernel_[0-9a-f]+]](%{{.+}}) {stepwell.ops = ["first"]}
// CHECK: call @[[OTHER:kernel_[0-9a-f]+]](
// CHECK: call @[[K]](%{{.+}}) {stepwell.ops = ["third"]}
// CHECK-COUNT-2: func.func private @{{kernel_[0-9a-f]+}}(
// CHECK-NOT: func.func
// CHECK-LABEL: // -----
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @kernel_0(%x) {stepwell.ops = ["first"]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @kernel_1(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @kernel_2(%1) {stepwell.ops = ["third"]} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @kernel_1(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @kernel_2(%y: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32> loc("Exp_7")
  return %0 : tensor<4xf32>
}

// -----

// Another module gives the kernel the same name.
// SAME: call @[[K:kernel_[0-9a-f]+]](%{{.+}}) {stepwell.ops = ["first"]}
// SAME: func.func @another
// SAME-NEXT: call @[[K]](

// Another target gives it another one.
// TARGETS: call @[[K:kernel_[0-9a-f]+]](%{{.+}}) {stepwell.ops = ["first"]}
// TARGETS: call @{{kernel_[0-9a-f]+}}(%{{.+}}) {stepwell.ops = ["third"]}
// TARGETS: func.func @negative_other_class
// TARGETS-NOT: @[[K]](
// TARGETS: call @{{kernel_[0-9a-f]+}}(%{{.+}}) {stepwell.ops = ["third"]}
// TARGETS-NOT: @[[K]](
// TARGETS: func.func @another
// TARGETS-NEXT: call @{{kernel_[0-9a-f]+}}(
func.func @another(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @exponential(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @exponential(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The versions that a call may run are renamed with their kernels.
// CHECK-LABEL: func.func @versions
// CHECK-NEXT: call @[[LONG:kernel_[0-9a-f]+]](%{{.+}}) {stepwell.versions = [@[[LONG]], @[[SHORT:kernel_[0-9a-f]+]]]}
// CHECK: func.func private @[[LONG]](
// CHECK: func.func private @[[SHORT]](
func.func @versions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @long(%x) {stepwell.versions = [@long, @short]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @long(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = {name = "long"}} {
  return %x : tensor<4xf32>
}
func.func private @short(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = {name = "short"}} {
  return %x : tensor<4xf32>
}

// -----

// A name of an earlier phase stays: the text of the kernel has changed since, and its object is found by that name.
// CHECK-LABEL: func.func @negative_named
// CHECK-NEXT: call @kernel_0123456789abcdef0123(
// CHECK: func.func private @kernel_0123456789abcdef0123(
func.func @negative_named(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @kernel_0123456789abcdef0123(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @kernel_0123456789abcdef0123(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  return %x : tensor<4xf32>
}

// -----

// Kernels with different classes get different schedules, although they compute the same.
// CHECK-LABEL: func.func @negative_other_class
// CHECK-NEXT: call @[[A:kernel_[0-9a-f]+]](
// CHECK-NOT: call @[[A]](
// CHECK: call @kernel_
// CHECK-COUNT-2: func.func private
func.func @negative_other_class(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @b(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  return %x : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "movement"}} {
  return %x : tensor<4xf32>
}
