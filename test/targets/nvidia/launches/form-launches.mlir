// RUN: stepwell-opt %s --split-input-file --stepwell-form-launches=target=cuda:sm_90a | FileCheck %s

// Every element needs the reduction of its row, in an order of terms that cannot be split among threads: the reduction
// is a launch of its own. Ops before and after it are fused into it.

// CHECK-LABEL: func.func private @centred(
// CHECK-SAME: %[[X:.+]]: tensor<64x128xf32>, %[[OUT:.+]]: tensor<64x128xf32>)
// CHECK: %[[EMPTY:.+]] = tensor.empty() : tensor<64xf32>
// CHECK: %[[SUM:.+]] = call @centred_0(%[[X]], %[[EMPTY]])
// CHECK: %[[R:.+]] = call @centred_1(%[[X]], %[[SUM]], %[[OUT]])
// CHECK: return %[[R]]
// CHECK: func.func private @centred_0({{.*}}) -> tensor<64xf32> attributes {stepwell.launch, stepwell.schedule =
// CHECK: arith.mulf
// CHECK: arith.subf
// CHECK: func.func private @centred_1({{.*}}stepwell.schedule = {name = "elements", threads = 256 : i64, vector = 4 : i64}
// CHECK: arith.mulf
// CHECK: arith.subf
#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func private @centred(%x: tensor<64x128xf32>, %out: tensor<64x128xf32>) -> tensor<64x128xf32>
    attributes {stepwell.kernel = {bytes = 65536 : i64, class = "reduction", flops = 16384 : i64}} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x128xf32>
  %squares = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<64x128xf32>
  %s = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%squares : tensor<64x128xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.subf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%squares, %sum : tensor<64x128xf32>, tensor<64xf32>) outs(%out : tensor<64x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.subf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<64x128xf32>
  return %r : tensor<64x128xf32>
}

// -----

// Ops that write only parts of the destination leave the rest of it unchanged.

// CHECK-LABEL: func.func private @borders(
// CHECK-SAME: %[[OUT:.+]]: tensor<8x8xf32>)
// CHECK: %[[TOP:.+]] = tensor.extract_slice %[[OUT]][0, 0] [1, 8] [1, 1]
// CHECK: %[[T:.+]] = call @borders_0(%[[TOP]])
// CHECK: %[[A:.+]] = tensor.insert_slice %[[T]] into %[[OUT]][0, 0] [1, 8]
// CHECK: call @borders_1
// CHECK: func.func private @borders_1(%{{.*}}: tensor<8xf32> {stepwell.offset = 56 : i64})
func.func private @borders(%out: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {stepwell.kernel = {bytes = 64 : i64, class = "movement", flops = 0 : i64}} {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.extract_slice %out[0, 0] [1, 8] [1, 1] : tensor<8x8xf32> to tensor<8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
  %2 = tensor.insert_slice %1 into %out[0, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<8x8xf32>
  %3 = tensor.extract_slice %2[7, 0] [1, 8] [1, 1] : tensor<8x8xf32> to tensor<8xf32>
  %4 = linalg.fill ins(%zero : f32) outs(%3 : tensor<8xf32>) -> tensor<8xf32>
  %5 = tensor.insert_slice %4 into %2[7, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

// -----

// Negative: an element that is cheap to compute is computed twice.

// CHECK-LABEL: func.func private @negative_cheap(
// CHECK: call @negative_cheap_0(
// CHECK-NOT: call @negative_cheap_1(
func.func private @negative_cheap(%x: tensor<64xf32>, %out: tensor<64x8xf32>) -> tensor<64x8xf32>
    attributes {stepwell.kernel = {bytes = 2304 : i64, class = "elementwise", flops = 576 : i64}} {
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %1 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<64xf32>) outs(%out : tensor<64x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64x8xf32>
  return %1 : tensor<64x8xf32>
}

// -----

// A kernel whose ops share rows is one launch.

// CHECK-LABEL: func.func private @rows(
// CHECK: call @rows_0(
// CHECK-NOT: call @rows_1(
// CHECK: func.func private @rows_0({{.*}}stepwell.schedule = {held = 1 : i64, name = "rows", share = 32 : i64
func.func private @rows(%x: tensor<64x128xf32>, %out: tensor<64xf32>) -> tensor<64xf32>
    attributes {stepwell.kernel = {bytes = 65536 : i64, class = "reduction", flops = 16384 : i64}} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x128xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  return %sum : tensor<64xf32>
}
