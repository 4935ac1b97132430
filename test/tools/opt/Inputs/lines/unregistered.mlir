func.func @f(%a: i32) {
  %0 = "unknown.op"(%a) {name = "x"} : (i32) -> !unknown.type
  "other.sink"(%0) ({
    "inner.op"() : () -> ()
  }) : (!unknown.type) -> ()
  return
}
