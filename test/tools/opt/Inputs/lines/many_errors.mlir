func.func @f(%a: f32) -> i32 {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32
  return %0 : f32
}
func.func @g(%a: f32) -> i32 {
  %0 = "arith.subi"(%a, %a) : (f32, f32) -> f32
  return %0 : f32
}
