// RUN: stepwell-opt %s --stepwell-record-launches | FileCheck %s

module attributes {gpu.container_module} {
  // Arguments of launches are the kernel's, or views of them.
  // CHECK-LABEL: func.func private @k(
  // CHECK-SAME: stepwell.launches = [
  // CHECK-SAME: {arguments = [{argument = 0 : i64, bytes = 256 : i64, offset = 0 : i64}, {argument = 1 : i64, bytes = 64 : i64, offset = 128 : i64}],
  // CHECK-SAME: block = array<i64: 64, 2, 1>, cluster = array<i64: 1, 1, 1>, entry = "first", grid = array<i64: 3, 4, 5>, shared_bytes = 0 : i64},
  // CHECK-SAME: {arguments = [{argument = 0 : i64, bytes = 256 : i64, offset = 0 : i64}],
  // CHECK-SAME: block = array<i64: 32, 1, 1>, cluster = array<i64: 2, 1, 1>, entry = "second", grid = array<i64: 4, 1, 1>, shared_bytes = 1024 : i64}]
  func.func private @k(%x: memref<64xf32>, %space: memref<1024xi8>) attributes {stepwell.kernel = {class = "elementwise"}} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %shared = arith.constant 1024 : i32
    %part = memref.view %space[%c128][] : memref<1024xi8> to memref<32xf16>
    gpu.launch_func @code::@first blocks in (%c3, %c4, %c5) threads in (%c64, %c2, %c1)
        args(%x : memref<64xf32>, %part : memref<32xf16>)
    gpu.launch_func @code::@second clusters in (%c2, %c1, %c1) blocks in (%c4, %c1, %c1) threads in (%c32, %c1, %c1)
        dynamic_shared_memory_size %shared args(%x : memref<64xf32>)
    return
  }

  // Views of views add their offsets; another shape of the same memory adds none.
  // CHECK-LABEL: func.func private @nested
  // CHECK-SAME: arguments = [{argument = 0 : i64, bytes = 32 : i64, offset = 192 : i64}]
  func.func private @nested(%space: memref<1024xi8>) attributes {stepwell.kernel = {class = "elementwise"}} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %outer = memref.view %space[%c128][] : memref<1024xi8> to memref<128xi8>
    %inner = memref.view %outer[%c64][] : memref<128xi8> to memref<2x4xf32>
    %flat = memref.reinterpret_cast %inner to offset: [0], sizes: [8], strides: [1] : memref<2x4xf32> to memref<8xf32>
    gpu.launch_func @code::@first blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%flat : memref<8xf32>)
    return
  }

  // A tensor map is made of the memory that it describes.
  // CHECK-LABEL: func.func private @mapped
  // CHECK-SAME: arguments = [{argument = 0 : i64, bytes = 256 : i64, map = {element = "f32"}, offset = 0 : i64}]
  func.func private @mapped(%x: memref<64xf32>) attributes {stepwell.kernel = {class = "contraction"}} {
    %c1 = arith.constant 1 : index
    %map = builtin.unrealized_conversion_cast %x : memref<64xf32> to !llvm.ptr {stepwell.tensor_map = {element = "f32"}}
    gpu.launch_func @code::@first blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%map : !llvm.ptr)
    return
  }

  // CHECK-LABEL: func.func private @negative_no_launches
  // CHECK-SAME: stepwell.launches = []
  func.func private @negative_no_launches(%x: memref<64xf32>) attributes {stepwell.kernel = {class = "movement"}} {
    return
  }

  // Only kernels have launches to plan.
  // CHECK-LABEL: func.func @negative_main
  // CHECK-NOT: stepwell.launches
  func.func @negative_main(%x: memref<64xf32>) {
    return
  }

  gpu.module @code {
    llvm.func @first() attributes {gpu.kernel} {
      llvm.return
    }
    llvm.func @second() attributes {gpu.kernel} {
      llvm.return
    }
  }
}
