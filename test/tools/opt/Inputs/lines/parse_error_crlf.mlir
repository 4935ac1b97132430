func.func @f() {
  oops
}
