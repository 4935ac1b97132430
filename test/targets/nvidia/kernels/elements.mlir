// RUN: stepwell-opt %s --compile-from=kernels --compile-to=gpu --target=cuda:sm_80 | FileCheck %s --check-prefix=GPU
// RUN: stepwell-opt %s --compile-from=kernels --compile-to=nvvm --target=cuda:sm_80 | FileCheck %s --check-prefix=NVVM

// One thread for four adjacent elements, with one load and one store of all four; indices have 32 bits. A small
// tensor has one thread for each element, as a block would otherwise lack threads.

// GPU-LABEL: gpu.module @k.gpu
// GPU-SAME: index = 32
// GPU: gpu.func @k_0(%[[X:.+]]: memref<8192xf32> {{.*}}llvm.readonly}, %[[OUT:.+]]: memref<8192xf32>
// GPU-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 8, 1, 1>
// GPU: %[[THREAD:.+]] = arith.addi
// GPU: arith.cmpi ult, %[[THREAD]]
// GPU: scf.if
// GPU: vector.load %[[X]]{{.*}}{alignment = 16 : i64}
// GPU-COUNT-4: arith.negf
// GPU: vector.store %{{.+}}, %[[OUT]]{{.*}}{alignment = 16 : i64}
// GPU: func.func private @k(
// GPU-SAME: stepwell.launches = [{arguments = [{argument = 0 : i64, bytes = 32768 : i64, offset = 0 : i64}
// GPU: gpu.launch_func @k.gpu::@k_0

// NVVM-LABEL: gpu.module @k.gpu
// NVVM: llvm.func @k_0({{.*}}nvvm.kernel
// NVVM: nvvm.read.ptx.sreg.tid.x
// NVVM: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// NVVM: llvm.call_intrinsic "llvm.sqrt"
module attributes {stepwell.library} {
  func.func private @k(%x: tensor<64x128xf32>, %out: tensor<64x128xf32>) -> tensor<64x128xf32>
      attributes {stepwell.kernel = {bytes = 65536 : i64, class = "elementwise", flops = 8192 : i64}} {
    %r = linalg.generic {
        indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
        iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x128xf32>) outs(%out : tensor<64x128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.negf %a : f32
      %s = math.sqrt %m : f32
      linalg.yield %s : f32
    } -> tensor<64x128xf32>
    return %r : tensor<64x128xf32>
  }

  // GPU-LABEL: gpu.module @small.gpu
  // GPU: gpu.func @small_0(%[[X:[a-z0-9]+]]: memref<32xf32>
  // GPU-NOT: vector.load
  // GPU: memref.load %[[X]]
  // GPU-NOT: vector.store
  // GPU: gpu.launch_func @small.gpu::@small_0
  func.func private @small(%x: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {stepwell.kernel = {bytes = 256 : i64, class = "elementwise", flops = 32 : i64}} {
    %r = linalg.generic {
        indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
        iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%out : tensor<4x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.negf %a : f32
      linalg.yield %m : f32
    } -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>
  }
}
