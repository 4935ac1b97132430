// RUN: stepwell-opt %s --split-input-file --stepwell-split-batches="machine=x86-64-v4+l2_bytes=131072" | FileCheck %s

// The results of the convolution and the pooling exceed the cache: these ops run image by image. The first op that
// needs all images reads them together again.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.+]]: tensor<4x112x112x16xf32>)
// CHECK:         %[[W:.+]] = "stepwell.parameter"() {dtype = f32, name = "w"
// CHECK:         %[[B:.+]] = "stepwell.parameter"() {dtype = f32, name = "b"
// CHECK:         %[[NONE:.+]] = tensor.empty() : tensor<4x56x56x32xf32>
// CHECK:         %[[ALL:.+]] = scf.for %[[I:.+]] = %c0 to %c4 step %c1 iter_args(%[[S:.+]] = %[[NONE]])
// CHECK:           %[[N:.+]] = arith.index_cast %[[I]] : index to i64
// CHECK:           %[[AT:.+]] = tensor.from_elements %[[N]] : tensor<i64>
// CHECK:           %[[ROW:.+]] = "stepwell.row"(%[[X]], %[[AT]])
// CHECK:           %[[IMAGE:.+]] = "stepwell.reshape"(%[[ROW]]) {shape = array<i64: 1, 112, 112, 16>}
// CHECK:           %[[CONV:.+]] = "stepwell.packed_conv"(%[[IMAGE]], %[[W]]) {{.+}} -> tensor<1x112x112x32xf32>
// CHECK:           %[[ADD:.+]] = "stepwell.add"(%[[CONV]], %[[B]])
// CHECK:           %[[POOL:.+]] = "stepwell.max_pool"(%[[ADD]]) {{.+}} -> tensor<1x56x56x32xf32>
// CHECK:           %[[OUT:.+]] = "stepwell.reshape"(%[[POOL]]) {shape = array<i64: 56, 56, 32>}
// CHECK:           %[[WITH:.+]] = "stepwell.with_row"(%[[S]], %[[OUT]], %[[AT]])
// CHECK:           scf.yield %[[WITH]]
// CHECK:         %[[Y:.+]] = "stepwell.reduce_max"(%[[ALL]]) {{.+}} : (tensor<4x56x56x32xf32>)
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<4x112x112x16xf32>) -> tensor<1x56x56x32xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 512>, dtype = f32} : () -> tensor<512xf32>
  %b = "stepwell.parameter"() {name = "b", shape = array<i64: 32>, dtype = f32} : () -> tensor<32xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 32 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<512xf32>) -> tensor<4x112x112x32xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<4x112x112x32xf32>, tensor<32xf32>) -> tensor<4x112x112x32xf32>
  %2 = "stepwell.max_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "channels_last"} : (tensor<4x112x112x32xf32>) -> tensor<4x56x56x32xf32>
  %3 = "stepwell.reduce_max"(%2) {axes = array<i64: 0>} : (tensor<4x56x56x32xf32>) -> tensor<1x56x56x32xf32>
  return %3 : tensor<1x56x56x32xf32>
}

// -----

// A loop does not end inside a residual block, where two tensors are needed after it, nor between a product and its
// addend. Attributes that hold the number of images are set to one.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for
// CHECK:           "stepwell.slice"(%{{.+}}) {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>, stops = array<i64: 1, 112, 112, 16>}
// CHECK:           "stepwell.packed_conv"
// CHECK:           "stepwell.relu"
// CHECK:           "stepwell.packed_conv"
// CHECK:           "stepwell.add"
// CHECK:           "stepwell.with_row"
// CHECK:           scf.yield
// CHECK:         "stepwell.gather"
func.func @main(%x: tensor<4x112x112x32xf32>, %i: tensor<2xi64>) -> tensor<2x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %v = "stepwell.parameter"() {name = "v", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %0 = "stepwell.slice"(%x) {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>, stops = array<i64: 4, 112, 112, 16>} : (tensor<4x112x112x32xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %2 = "stepwell.relu"(%1) : (tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32>
  %3 = "stepwell.packed_conv"(%2, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %4 = "stepwell.add"(%0, %3) : (tensor<4x112x112x16xf32>, tensor<4x112x112x16xf32>) -> tensor<4x112x112x16xf32>
  %5 = "stepwell.packed_conv"(%4, %v) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %6 = "stepwell.gather"(%5, %i) {axis = 0 : i64} : (tensor<4x112x112x16xf32>, tensor<2xi64>) -> tensor<2x112x112x16xf32>
  return %6 : tensor<2x112x112x16xf32>
}

// -----

// Inputs with fewer dimensions, or with another first extent, hold no images: their ops stay outside.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.relu"(%{{.+}}) : (tensor<4x32xf32>)
// CHECK:         "stepwell.relu"(%{{.+}}) : (tensor<3x8x8xf32>)
// CHECK:         scf.for
// CHECK-COUNT-2:   "stepwell.packed_conv"
// CHECK:           scf.yield
func.func @main(%n: tensor<5x4xf32>, %m: tensor<4x32xf32>, %x: tensor<4x112x112x16xf32>, %z: tensor<3x8x8xf32>) -> (tensor<4x112x112x16xf32>, tensor<4x32xf32>, tensor<3x8x8xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %2 = "stepwell.relu"(%m) : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %3 = "stepwell.relu"(%z) : (tensor<3x8x8xf32>) -> tensor<3x8x8xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  %1 = "stepwell.packed_conv"(%0, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<4x112x112x16xf32>, tensor<256xf32>) -> tensor<4x112x112x16xf32>
  return %1, %2, %3 : tensor<4x112x112x16xf32>, tensor<4x32xf32>, tensor<3x8x8xf32>
}

// -----

// Operands that all images share are read whole, whatever their first extent.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<112x112x112x16xf32>, %[[ROWS:[a-z0-9]+]]: tensor<1x112x16xf32>, %[[COLUMNS:[a-z0-9]+]]: tensor<112x16xf32>
// CHECK:         %[[ALL:.+]] = "stepwell.parameter"() {{.*}} -> tensor<112x112x16xf32>
// CHECK:         scf.for
// CHECK:           "stepwell.add"(%{{.+}}, %[[ALL]]) : (tensor<1x112x112x16xf32>, tensor<112x112x16xf32>)
// CHECK:           "stepwell.add"(%{{.+}}, %[[ROWS]])
// CHECK:           "stepwell.add"(%{{.+}}, %[[COLUMNS]])
func.func @main(%x: tensor<112x112x112x16xf32>, %rows: tensor<1x112x16xf32>, %columns: tensor<112x16xf32>) -> tensor<112x112x112x16xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 256>, dtype = f32} : () -> tensor<256xf32>
  %all = "stepwell.parameter"() {name = "p", shape = array<i64: 112, 112, 16>, dtype = f32} : () -> tensor<112x112x16xf32>
  %0 = "stepwell.packed_conv"(%x, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<112x112x112x16xf32>, tensor<256xf32>) -> tensor<112x112x112x16xf32>
  %1 = "stepwell.add"(%0, %all) : (tensor<112x112x112x16xf32>, tensor<112x112x16xf32>) -> tensor<112x112x112x16xf32>
  %2 = "stepwell.add"(%1, %rows) : (tensor<112x112x112x16xf32>, tensor<1x112x16xf32>) -> tensor<112x112x112x16xf32>
  %3 = "stepwell.add"(%2, %columns) : (tensor<112x112x112x16xf32>, tensor<112x16xf32>) -> tensor<112x112x112x16xf32>
  %4 = "stepwell.packed_conv"(%3, %w) {columns = 16 : i64, panel = 16 : i64, group = 1 : i64, kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64>} : (tensor<112x112x112x16xf32>, tensor<256xf32>) -> tensor<112x112x112x16xf32>
  return %4 : tensor<112x112x112x16xf32>
}
