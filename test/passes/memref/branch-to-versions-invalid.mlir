// RUN: stepwell-opt %s --stepwell-branch-to-versions --verify-diagnostics

// expected-error @below {{kernels have versions, but @main has no input 'stepwell.table' that selects them}}
func.func @main(%x: memref<4xf32>, %out: memref<4xf32>) {
  call @k(%x, %out) {stepwell.step = 3 : i64, stepwell.choice = 7 : i64, stepwell.versions = [@k, @k1]} : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
func.func private @k(memref<4xf32>, memref<4xf32>)
func.func private @k1(memref<4xf32>, memref<4xf32>)
