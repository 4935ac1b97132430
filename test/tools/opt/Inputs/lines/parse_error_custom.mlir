func.func @f() {
  no_such_op
  return
}
