func.func @f(%n: index) {
  %0 = memref.alloc(%n) : memref<?xf32>
  %c0 = arith.constant 0 : index
  %1 = memref.load %0[%c0] : memref<?xf32>
  "unknown.use"(%1) : (f32) -> ()
  return
}
