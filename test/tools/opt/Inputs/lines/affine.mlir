func.func @copy(%a: memref<8x8xf32>, %b: memref<8x8xf32>) {
  affine.for %i = 0 to 8 {
    affine.for %j = 0 to 8 {
      %0 = affine.load %a[%i, %j] : memref<8x8xf32>
      affine.store %0, %b[%i, %j] : memref<8x8xf32>
    }
  }
  return
}
