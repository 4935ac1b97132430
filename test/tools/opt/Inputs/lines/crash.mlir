gpu.module @kernels {
  gpu.func @f() kernel { gpu.return }
}
