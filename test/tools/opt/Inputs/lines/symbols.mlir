module @"a name" {
  func.func private @unused() { return }
  func.func @"with space"() { return }
  func.func nested @used() { return }
}
