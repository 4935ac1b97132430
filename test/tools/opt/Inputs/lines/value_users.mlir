func.func @f(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1:2 = func.call @two(%0) : (i32) -> (i32, i32)
  %2 = arith.muli %1#0, %1#1 : i32
  return %2 : i32
}
func.func private @two(i32) -> (i32, i32)
