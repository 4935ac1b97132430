func.func @branches(%c: i1, %a: i32) -> i32 {
  %one = arith.constant 1 : i32
  cf.cond_br %c, ^then(%a : i32), ^else
^then(%x: i32):
  %0 = arith.addi %x, %one : i32
  cf.br ^end(%0 : i32)
^else:
  cf.br ^end(%one : i32)
^end(%r: i32):
  return %r : i32
^dead:
  cf.br ^dead
}
