// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-vectorize)' | FileCheck %s
// RUN: stepwell-opt %s --stepwell-vectorize --target=aarch64:apple-m1 | FileCheck %s --check-prefix=M1

#row = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// Rows 4096 bytes apart share a set of the cache, which cannot hold lines of all of them: both tiles of an input line
// are transposed before the next rows.

// CHECK-LABEL: func.func private @turned_lines(
// CHECK: scf.for %[[LINE:.*]] = %c0 to %c1024 step %c16
// CHECK: %[[START:.*]] = arith.minsi %[[LINE]], %c1008
// CHECK: scf.for %{{.*}} = %c0 to %c24 step %c8
// CHECK: scf.for %[[PART:.*]] = %c0 to %c16 step %c8
// CHECK: arith.addi %[[START]], %[[PART]]
// CHECK-COUNT-24: vector.shuffle
// CHECK-NOT: scf.for

// The pages of an Apple M1, and with them the distance of addresses that share a set, have 16384 bytes.

// M1-LABEL: func.func private @turned_lines(
// M1: scf.for %{{.*}} = %c0 to %c1024 step %c8

// Rows at other distances do not share a set: the next rows come first.

// CHECK-LABEL: func.func private @turned_tiles(
// CHECK: scf.for %{{.*}} = %c0 to %c1000 step %c8
// CHECK: scf.for %{{.*}} = %c0 to %c24 step %c8
// CHECK-NOT: scf.for
// CHECK-COUNT-24: vector.shuffle
// CHECK-NOT: scf.for
func.func private @turned_lines(%x: tensor<24x1024xf32>, %out: tensor<1024x24xf32>) -> tensor<1024x24xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#turned, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<24x1024xf32>) outs(%out : tensor<1024x24xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1024x24xf32>
  return %0 : tensor<1024x24xf32>
}

func.func private @turned_tiles(%x: tensor<24x1000xf32>, %out: tensor<1000x24xf32>) -> tensor<1000x24xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [#turned, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<24x1000xf32>) outs(%out : tensor<1000x24xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1000x24xf32>
  return %0 : tensor<1000x24xf32>
}

// Three planes become the elements of each pixel, row by row of an image: no vector is partly filled.

// CHECK-LABEL: func.func private @merged_planes(
// CHECK: scf.for %[[Y:.*]] = %c0 to %c20 step %c1
// CHECK: scf.for
// CHECK: vector.transfer_read %{{.*}}[%c0, %[[Y]], %[[X:.*]]], %{{.*}} : tensor<3x20x24xf32>, vector<8xf32>
// CHECK: vector.transfer_read %{{.*}}[%c1, %[[Y]], %[[X]]], %{{.*}} : tensor<3x20x24xf32>, vector<8xf32>
// CHECK: vector.transfer_read %{{.*}}[%c2, %[[Y]], %[[X]]], %{{.*}} : tensor<3x20x24xf32>, vector<8xf32>
// CHECK: %[[AT:.*]] = arith.muli %[[X]], %c3
// CHECK: vector.transfer_write %{{.*}}, %{{.*}}[%[[Y]], %[[AT]]] {{.*}} : vector<24xf32>, tensor<20x72xf32>
func.func private @merged_planes(%x: tensor<3x20x24xf32>, %out: tensor<20x24x3xf32>) -> tensor<20x24x3xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64}} {
  %0 = linalg.generic {indexing_maps = [affine_map<(y, x, c) -> (c, y, x)>, affine_map<(y, x, c) -> (y, x, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<3x20x24xf32>) outs(%out : tensor<20x24x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<20x24x3xf32>
  return %0 : tensor<20x24x3xf32>
}
