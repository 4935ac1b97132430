func.func @f(%a: i32) {
  "unknown.op"(%a) : (i32) -> ()
  return
}
