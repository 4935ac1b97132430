func.func @f(%x: memref<?xf32, affine_map<(d0) -> (d0 mod 2)>>, %i: index) -> f32 {
  %0 = memref.load %x[%i] : memref<?xf32, affine_map<(d0) -> (d0 mod 2)>>
  return %0 : f32
}
