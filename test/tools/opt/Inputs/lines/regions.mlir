func.func @r(%c: i1) {
  scf.if %c {
    scf.if %c {
      %0 = arith.constant 1 : i32
    }
  }
  return
}
func.func @names(%arg0: i32 loc("x"), %arg1: i32 loc("y")) -> i32 {
  %0 = arith.addi %arg0, %arg1 : i32 loc("sum"("f.c":1:1))
  return %0 : i32
}
