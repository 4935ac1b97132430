func.func @sum(%m: memref<16xf32>, %n: index) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {
    %x = memref.load %m[%i] : memref<16xf32>
    %is = arith.cmpf ogt, %x, %zero : f32
    %y = scf.if %is -> f32 {
      scf.yield %x : f32
    } else {
      %neg = arith.negf %x : f32
      scf.yield %neg : f32
    }
    %next = arith.addf %acc, %y : f32
    scf.yield %next : f32
  }
  return %r : f32
}
