// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg)' | FileCheck %s --check-prefix=LINALG
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4})' | FileCheck %s --check-prefix=TILED
// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-convert-to-linalg,stepwell-apply-schedules{target=x86-64-v4},stepwell-vectorize)' | FileCheck %s --check-prefix=VECTOR

// Images of 10 x 10 pixels are 3 x 3 tiles of 4 x 4, read with a margin of one: 14 x 14.
// LINALG-LABEL: func.func private @conv
// LINALG: tensor.pad %{{.+}} low[0, 1, 1, 0] high[0, 3, 3, 0]
// LINALG: tensor<1x10x10x16xf32> to tensor<1x14x14x16xf32>
// LINALG: linalg.generic {{.*}} ins({{.+}} : tensor<1x14x14x16xf32>, tensor<6x6xf32>, tensor<6x6xf32>) outs(%{{.+}} : tensor<6x6x1x3x3x16xf32>) attrs = {stepwell.winograd = "input"}
// LINALG: linalg.generic {{.*}} ins({{.+}} : tensor<36x9x16xf32>, tensor<36x1x16x32xf32>) outs(%{{.+}} : tensor<36x9x1x32xf32>) attrs = {stepwell.contraction = 0 : i64, stepwell.root = 0 : i64}
// LINALG: linalg.generic {{.*}} ins({{.+}} : tensor<6x6x1x3x3x32xf32>, tensor<4x6xf32>, tensor<4x6xf32>) outs(%{{.+}} : tensor<1x3x4x3x4x32xf32>) attrs = {stepwell.winograd = "output"}
// LINALG: tensor.extract_slice %{{.+}}[0, 0, 0, 0] [1, 10, 10, 32]
// LINALG: linalg.generic {{.*}} outs(%{{.+}} : tensor<1x10x10x32xf32>) attrs = {stepwell.winograd = "epilogue"}

// Strips of two rows of tiles: the second strip begins at row 1. Each is transformed in two parts.
// TILED-LABEL: func.func private @conv
// TILED-SAME: stepwell.schedule = {{{.*}}name = "winograd", part = array<i64: 1, 3>, strip = array<i64: 2, 3>
// TILED: scf.forall (%{{.+}}, %[[ROW:.+]], %{{.+}}) = (0, 0, 0) to (1, 3, 3) step (1, 2, 3)
// TILED: arith.minsi %[[ROW]], %c1
// TILED: scf.forall
// TILED: linalg.generic {{.*}} outs(%{{.+}} : tensor<6x6x1x3x16xf32>) attrs = {stepwell.winograd = "input"}
// TILED: stepwell.contraction = 0
// TILED: scf.forall
// TILED: stepwell.winograd = "output"
// Tiles reach beyond the end of the image.
// TILED: tensor.extract_slice %{{.+}}[0, 0, 0] [%{{.+}}, %{{.+}}, 32]
// TILED: stepwell.winograd = "epilogue"
// TILED: tensor.parallel_insert_slice %{{.+}} into %{{.+}}[0, %{{.+}}, 0, 0] [1, %{{.+}}, 10, 32] [1, 1, 1, 1] : tensor<1x?x10x32xf32> into tensor<1x10x10x32xf32>

// The pixels of a tile are inside the image, or they are read at the nearest position and set to zero.
// VECTOR-LABEL: func.func private @conv
// VECTOR: scf.if
// VECTOR-COUNT-36: vector.transfer_read %{{.+}} : tensor<1x10x10x16xf32>, vector<16xf32>
// VECTOR-COUNT-36: vector.transfer_write
// VECTOR: else
// VECTOR: arith.andi %{{.+}}, %{{.+}} : vector<16xi32>
// VECTOR-COUNT-36: vector.transfer_write
// VECTOR-COUNT-36: vector.transfer_read %{{.+}} : tensor<6x6x1x3x32xf32>, vector<16xf32>
// VECTOR: arith.select
// VECTOR: vector.transfer_write
// VECTOR-NOT: linalg.
func.func private @conv(%x: tensor<1x10x10x16xf32>, %w: tensor<18432xf32>, %b: tensor<32xf32>) -> tensor<1x10x10x32xf32>
    attributes {stepwell.kernel = {class = "winograd"}, stepwell.schedule = {name = "winograd", strip = array<i64: 2, 3>,
      part = array<i64: 1, 3>}} {
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<1x10x10x16xf32>, tensor<18432xf32>) -> tensor<1x10x10x32xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<1x10x10x32xf32>, tensor<32xf32>) -> tensor<1x10x10x32xf32>
  %2 = "stepwell.relu"(%1) : (tensor<1x10x10x32xf32>) -> tensor<1x10x10x32xf32>
  return %2 : tensor<1x10x10x32xf32>
}

// Two of three small images share a strip: the second strip begins at image 1. Blocks of the transforms are images.
// TILED-LABEL: func.func private @images
// TILED-SAME: stepwell.schedule = {{{.*}}images = 2 : i64
// TILED: scf.forall (%[[IMAGE:.+]], %{{.+}}, %{{.+}}) = (0, 0, 0) to (3, 1, 2) step (2, 1, 2)
// TILED: %[[FIRST:.+]] = arith.minsi %[[IMAGE]], %c1
// TILED: scf.forall (%[[INDEX:.+]], %{{.+}}, %{{.+}}) = (0, 0, 0) to (2, 1, 2) step (1, 1, 2)
// TILED: %[[NUMBER:.+]] = arith.minsi %[[INDEX]]
// TILED: arith.addi %[[FIRST]], %[[NUMBER]]
// TILED: linalg.generic {{.*}} outs(%{{.+}} : tensor<6x6x1x2x16xf32>) attrs = {stepwell.winograd = "input"}
// TILED: tensor<36x4x1x32xf32>
// TILED: tensor.parallel_insert_slice {{.*}} tensor<2x4x8x32xf32> into tensor<3x4x8x32xf32>
func.func private @images(%x: tensor<3x4x8x16xf32>, %w: tensor<18432xf32>, %b: tensor<3x4x8x32xf32>) -> tensor<3x4x8x32xf32>
    attributes {stepwell.kernel = {class = "winograd"}, stepwell.schedule = {name = "winograd", images = 2 : i64,
      strip = array<i64: 1, 2>, part = array<i64: 1, 2>}} {
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<3x4x8x16xf32>, tensor<18432xf32>) -> tensor<3x4x8x32xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<3x4x8x32xf32>, tensor<3x4x8x32xf32>) -> tensor<3x4x8x32xf32>
  return %1 : tensor<3x4x8x32xf32>
}

// Many weights are read once for all images.
// TILED-LABEL: func.func private @many_weights
// TILED-SAME: stepwell.schedule = {{{.*}}images = 8 : i64
func.func private @many_weights(%x: tensor<8x4x4x256xf32>, %w: tensor<2359296xf32>) -> tensor<8x4x4x256xf32>
    attributes {stepwell.kernel = {class = "winograd"}} {
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 256 : i64, panel = 32 : i64, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<8x4x4x256xf32>, tensor<2359296xf32>) -> tensor<8x4x4x256xf32>
  return %0 : tensor<8x4x4x256xf32>
}

// If the size of images varies, a strip is a number of consecutive tiles; the last one ends at the last tile of a call.
// TILED-LABEL: func.func private @sizes
// TILED-SAME: stepwell.schedule = {{{.*}}strip = array<i64: 1, 5>
// TILED: %[[ROWS:.+]] = tensor.extract %arg2[%c0
// TILED: %[[COLUMNS:.+]] = tensor.extract %arg2[%c1
// TILED: %[[TOTAL:.+]] = arith.muli
// TILED: scf.forall (%[[FIRST:.+]]) = (0) to (9) step (5)
// TILED: %[[START:.+]] = arith.maxsi
// TILED: scf.for %[[TILE:.+]] = %c0
// TILED: %[[OWN:.+]] = arith.addi %[[START]], %[[TILE]]
// TILED: arith.divui %[[OWN]]
// TILED: linalg.generic {{.*}} outs(%{{.+}} : tensor<6x6x1x1x16xf32>) attrs = {stepwell.winograd = "input"}
// TILED: stepwell.contraction = 0
// TILED: scf.for
// TILED: stepwell.winograd = "epilogue"
// TILED: {stepwell.tiles = array<i64: 1, 4, 4, 32>}
func.func private @sizes(%x: tensor<1x12x12x16xf32>, %w: tensor<18432xf32>, %table: tensor<256xi64>) -> tensor<1x12x12x32xf32>
    attributes {stepwell.kernel = {class = "winograd"}, stepwell.extents = array<i64: -1, 0, 1, -1>,
      stepwell.table_argument = 2 : i64, stepwell.tile_rows = array<i64: 1, 5>} {
  %0 = "stepwell.winograd_conv"(%x, %w) {columns = 32 : i64, panel = 32 : i64, tile = 4 : i64, pads = array<i64: 1, 1, 1, 1>}
    : (tensor<1x12x12x16xf32>, tensor<18432xf32>) -> tensor<1x12x12x32xf32>
  return %0 : tensor<1x12x12x32xf32>
}
