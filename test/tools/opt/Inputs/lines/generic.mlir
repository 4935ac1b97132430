"builtin.module"() ({
  "func.func"() <{function_type = (index) -> index, sym_name = "f"}> ({
  ^bb0(%x: index):
    %one = "arith.constant"() <{value = 1 : index}> : () -> index
    %sum = "arith.addi"(%x, %one) <{overflowFlags = #arith.overflow<nsw>}> : (index, index) -> index
    "func.return"(%sum) : (index) -> ()
  }) : () -> ()
}) : () -> ()
