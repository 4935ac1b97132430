func.func @f(%a: i32) -> i32 {
  %0 = "mine.twice"(%a) : (i32) -> i32
  "mine.twice"(%a) : (i32) -> i32
  return %0 : i32
}
func.func private @g(!mine.box<i32>)
