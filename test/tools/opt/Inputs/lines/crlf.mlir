func.func @f() {
  return
}
