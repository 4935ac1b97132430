// RUN: stepwell-opt %s --pass-pipeline='builtin.module(stepwell-vectorize)' | FileCheck %s

#same = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
// A tensor whose last reader makes the result is stored in the memory of the result.

// CHECK-LABEL: func.func private @overwritten(
// CHECK-SAME: %{{.*}}: tensor<256xf32>, %[[OUT:.*]]: tensor<256xf32>
// CHECK: %[[MADE:.*]]:2 = scf.for %{{.*}} iter_args(%{{.*}} = %[[OUT]], %{{.*}})
// CHECK: scf.for %{{.*}} iter_args(%[[NOW:.*]] = %[[MADE]]#0)
// CHECK: %[[READ:.*]] = vector.transfer_read %[[NOW]]
// CHECK: arith.mulf %[[READ]]
// CHECK: vector.transfer_write %{{.*}}, %[[NOW]]
func.func private @overwritten(%x: tensor<256xf32>, %out: tensor<256xf32>) -> tensor<256xf32> attributes {stepwell.kernel = {class = "reduction"}, stepwell.schedule = {vector_bytes = 32 : i64, unroll = 8 : i64}} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256xf32>
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%x : tensor<256xf32>) outs(%e : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.mulf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<256xf32>
  %s = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %2 = linalg.generic {indexing_maps = [#same, #none], iterator_types = ["reduction"]} ins(%0 : tensor<256xf32>) outs(%start : tensor<f32>) {
  ^bb0(%a: f32, %t: f32):
    %3 = arith.addf %t, %a : f32
    linalg.yield %3 : f32
  } -> tensor<f32>
  %4 = linalg.generic {indexing_maps = [#same, #none, #same], iterator_types = ["parallel"]} ins(%0, %2 : tensor<256xf32>, tensor<f32>) outs(%out : tensor<256xf32>) {
  ^bb0(%a: f32, %t: f32, %o: f32):
    %5 = arith.mulf %a, %t : f32
    linalg.yield %5 : f32
  } -> tensor<256xf32>
  return %4 : tensor<256xf32>
}

// A temporary that is read after the result is made keeps its own memory.

// CHECK-LABEL: func.func private @negative_overwritten(
// CHECK-SAME: %{{.*}}: tensor<256xf32>, %[[OUT:.*]]: tensor<256xf32>
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<256xf32>
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %[[EMPTY]], %{{.*}})
func.func private @negative_overwritten(%x: tensor<256xf32>, %out: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>) attributes {stepwell.kernel = {class = "reduction"}, stepwell.schedule = {vector_bytes = 32 : i64, unroll = 8 : i64}} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256xf32>
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%x : tensor<256xf32>) outs(%e : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.mulf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<256xf32>
  %s = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %2 = linalg.generic {indexing_maps = [#same, #none], iterator_types = ["reduction"]} ins(%0 : tensor<256xf32>) outs(%start : tensor<f32>) {
  ^bb0(%a: f32, %t: f32):
    %3 = arith.addf %t, %a : f32
    linalg.yield %3 : f32
  } -> tensor<f32>
  %4 = linalg.generic {indexing_maps = [#same, #none, #same], iterator_types = ["parallel"]} ins(%0, %2 : tensor<256xf32>, tensor<f32>) outs(%out : tensor<256xf32>) {
  ^bb0(%a: f32, %t: f32, %o: f32):
    %5 = arith.mulf %a, %t : f32
    linalg.yield %5 : f32
  } -> tensor<256xf32>
  return %4, %0 : tensor<256xf32>, tensor<256xf32>
}

// An op that replaces a slice that it reads writes into the slice.

// CHECK-LABEL: func.func private @slice(
// CHECK: %[[ROW:.*]] = tensor.extract_slice %[[ROWS:[a-z0-9]+]][%[[AT:.*]], 0] [1, 64]
// CHECK-NOT: tensor.empty
// CHECK: %[[SUMS:.*]] = scf.for %{{.*}} iter_args(%[[NOW:.*]] = %[[ROW]])
// CHECK: %[[READ:.*]] = vector.transfer_read %[[NOW]]
// CHECK: arith.addf %[[READ]]
// CHECK: tensor.insert_slice %[[SUMS]] into %[[ROWS]][%[[AT]], 0] [1, 64]
func.func private @slice(%x: tensor<64xf32>, %at: index, %out: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64, unroll = 4 : i64}} {
  %row = tensor.extract_slice %out[%at, 0] [1, 64] [1, 1] : tensor<8x64xf32> to tensor<64xf32>
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]} ins(%x, %row : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %b, %a : f32
    linalg.yield %1 : f32
  } -> tensor<64xf32>
  %2 = tensor.insert_slice %0 into %out[%at, 0] [1, 64] [1, 1] : tensor<64xf32> into tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// Another slice keeps its contents.

// CHECK-LABEL: func.func private @negative_slice(
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<64xf32>
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %[[EMPTY]])
func.func private @negative_slice(%x: tensor<64xf32>, %at: index, %other: index, %out: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {stepwell.kernel = {class = "movement"}, stepwell.schedule = {vector_bytes = 32 : i64, unroll = 4 : i64}} {
  %row = tensor.extract_slice %out[%at, 0] [1, 64] [1, 1] : tensor<8x64xf32> to tensor<64xf32>
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]} ins(%x, %row : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %b, %a : f32
    linalg.yield %1 : f32
  } -> tensor<64xf32>
  %2 = tensor.insert_slice %0 into %out[%other, 0] [1, 64] [1, 1] : tensor<64xf32> into tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}
