// RUN: stepwell-opt %s --stepwell-form-kernels "--stepwell-version-kernels=target=x86-64-v4" --split-input-file | FileCheck %s

// One to eight rows, and the same for images: one tile for many rows, and others for few.
// CHECK-LABEL: module attributes {{.*}}stepwell.table = ["\22rows\22", "[\22mod\22
// CHECK:         call @[[K:[a-z0-9_]+]](%{{.+}}) {stepwell.choice = 1 : i64,
// CHECK-SAME:      stepwell.versions = [@[[K]], @[[K]]_version_1
// CHECK:         func.func private @[[K]](
// CHECK-SAME:      stepwell.tile_rows = array<i64: 1, {{[0-9]+}}>, stepwell.typical = [array<i64:
// CHECK:         func.func private @[[K]]_version_1(
// CHECK-SAME:      stepwell.tile_rows = array<i64: 1,
module attributes {stepwell.table = ["\"rows\""], stepwell.ranges = {rows = [1, 16, 1]}} {
  func.func @main(%x: tensor<16x256xf32>, %table: tensor<256xi64>) -> (tensor<16x512xf32> {stepwell.extents = array<i64: 0, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 131072>, dtype = f32} : () -> tensor<131072xf32>
    %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<16x256xf32>, tensor<131072xf32>) -> tensor<16x512xf32>
    return %0 : tensor<16x512xf32>
  }
}

// -----

// Negative: no size varies.
// CHECK-LABEL: func.func @main(%arg0: tensor<16x256xf32>) ->
// CHECK-NOT:     stepwell.versions
// CHECK-NOT:     stepwell.tile_rows
func.func @main(%x: tensor<16x256xf32>) -> tensor<16x512xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 131072>, dtype = f32} : () -> tensor<131072xf32>
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 512, panel = 32} : (tensor<16x256xf32>, tensor<131072xf32>) -> tensor<16x512xf32>
  return %0 : tensor<16x512xf32>
}

// -----

// Channels-first data: tiles of pixels, which are as wide as rows are.
// CHECK-LABEL: module attributes {{.*}}stepwell.table = ["\22size\22", "[\22mod\22
// CHECK:         call @[[K:[a-z0-9_]+]](%{{.+}}) {stepwell.choice = 1 : i64,
// CHECK:         func.func private @[[K]](
// CHECK-SAME:      class = "depthwise"
// CHECK-SAME:      stepwell.tile_rows = array<i64: 2, 2>, stepwell.typical = [array<i64:
// CHECK:         func.func private @[[K]]_version_1(
// CHECK-SAME:      stepwell.tile_rows = array<i64: 3, 3>, stepwell.typical = [array<i64:
module attributes {stepwell.table = ["\"size\""], stepwell.ranges = {size = [1, 16, 1]}} {
  func.func @main(%x: tensor<1x16x16x64xf32>, %table: tensor<256xi64>) -> (tensor<1x16x16x64xf32> {stepwell.extents = array<i64: -1, 0, 0, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 5, 5, 64>, dtype = f32} : () -> tensor<5x5x64xf32>
    %0 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>} : (tensor<1x16x16x64xf32>, tensor<5x5x64xf32>) -> tensor<1x16x16x64xf32>
    return %0 : tensor<1x16x16x64xf32>
  }
}

// -----

// Tiles of images whose number alone varies are cut in the same way at all sizes.
// CHECK-LABEL: module attributes {{.*}}stepwell.table = ["\22images\22"]
// CHECK:         func.func private @{{[a-z0-9_]+}}(
// CHECK-SAME:      class = "winograd"
// CHECK-NOT:       stepwell.tile_rows
module attributes {stepwell.table = ["\"images\""], stepwell.ranges = {images = [1, 8, 1]}} {
  func.func @main(%x: tensor<8x16x24x32xf32>, %table: tensor<256xi64>) -> (tensor<8x16x24x32xf32> {stepwell.extents = array<i64: 0, -1, -1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 36864>, dtype = f32} : () -> tensor<36864xf32>
    %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32, panel = 32, tile = 4, pads = array<i64: 1, 1, 1, 1>} : (tensor<8x16x24x32xf32>, tensor<36864xf32>) -> tensor<8x16x24x32xf32>
    return %0 : tensor<8x16x24x32xf32>
  }
}

// -----

// Tiles of Winograd convolutions are counted over rows and columns together.
// CHECK-LABEL: module attributes
// CHECK-SAME:    stepwell.table = ["\22height\22", "\22width\22", {{.*}}ceildiv{{.*}}height{{.*}}ceildiv{{.*}}width
// CHECK:         call @{{.+}} {stepwell.choice = 2 : i64, {{.*}}stepwell.versions = [
// CHECK:         func.func private @{{[a-z0-9_]+}}(
// CHECK-SAME:      class = "winograd"
// CHECK-SAME:      stepwell.tile_rows = array<i64: 1, {{[0-9]+}}>
module attributes {stepwell.table = ["\"height\"", "\"width\""], stepwell.ranges = {height = [1, 48, 1], width = [1, 48, 1]}} {
  func.func @main(%x: tensor<1x48x48x32xf32>, %table: tensor<256xi64>) -> (tensor<1x48x48x32xf32> {stepwell.extents = array<i64: -1, 0, 1, -1>}) {
    %w = "stepwell.parameter"() {name = "w", shape = array<i64: 36864>, dtype = f32} : () -> tensor<36864xf32>
    %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32, panel = 32, tile = 4, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x48x48x32xf32>, tensor<36864xf32>) -> tensor<1x48x48x32xf32>
    return %0 : tensor<1x48x48x32xf32>
  }
}
