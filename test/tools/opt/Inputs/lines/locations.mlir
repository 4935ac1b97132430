#known = loc("alias.c":3:4)
func.func @f(%a: i32 loc("argument")) -> i32 {
  %0 = arith.addi %a, %a : i32 loc("named"("file.c":10:2))
  %1 = arith.muli %0, %a : i32 loc(callsite("callee.c":1:2 at "caller.c":3:4))
  %2 = arith.subi %1, %a : i32 loc(fused<"why">["one.c":1:1, "two.c":2:2])
  %3 = arith.xori %2, %a : i32 loc(unknown)
  %4 = arith.ori %3, %a : i32 loc("range.c":1:2 to 3:4)
  return %4 : i32 loc(#known)
} loc(fused["a", "b"])
