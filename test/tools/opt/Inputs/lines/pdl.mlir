pdl.pattern @p : benefit(1) {
  %t = type : i32
  %o = operand : %t
  %0 = operation "arith.addi"(%o, %o : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  rewrite %0 {
    replace %0 with (%o : !pdl.value)
  }
}
