module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k(%m: memref<16xf32>) kernel {
      %i = gpu.thread_id x
      %0 = memref.load %m[%i] : memref<16xf32>
      %1 = arith.addf %0, %0 : f32
      memref.store %1, %m[%i] : memref<16xf32>
      gpu.return
    }
  }
}
