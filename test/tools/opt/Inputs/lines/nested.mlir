module @outer {
  module @inner attributes {test.level = 2 : i64} {
    func.func @f(%a: i32) -> i32 {
      %0 = arith.addi %a, %a : i32
      %1 = arith.addi %a, %a : i32
      %2 = arith.xori %0, %1 : i32
      return %2 : i32
    }
    func.func private @declared(i32)
  }
  func.func @g() {
    %c = arith.constant 3 : i32
    %d = arith.constant 3 : i32
    call @declared(%c) : (i32) -> ()
    return
  }
  func.func private @declared(i32)
}
