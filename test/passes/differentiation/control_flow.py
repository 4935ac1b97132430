"""Programs with loops and conditionals, of which gradients are compared with finite differences."""

CONDITIONAL = """
func.func @main(%c: tensor<i1>, %x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %flag = tensor.extract %c[] : tensor<i1>
  %r:2 = scf.if %flag -> (tensor<3xf64>, tensor<3xf64>) {
    %0 = "stepwell.sin"(%x) : (tensor<3xf64>) -> tensor<3xf64>
    %1 = "stepwell.mul"(%0, %y) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    scf.yield %1, %x : tensor<3xf64>, tensor<3xf64>
  } else {
    %0 = "stepwell.mul"(%x, %x) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    scf.yield %0, %0 : tensor<3xf64>, tensor<3xf64>
  }
  return %r#0, %r#1 : tensor<3xf64>, tensor<3xf64>
}
"""

RECURRENCE = """
func.func @main(%x: tensor<5x2x3xf64>, %w: tensor<4x4xf64>, %u: tensor<4x3xf64>, %b: tensor<4xf64>,
                %h0: tensor<2x4xf64>, %s0: tensor<7x2x4xf64>) -> (tensor<2x4xf64>, tensor<7x2x4xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %four = "stepwell.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  %r:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%h = %h0, %s = %s0) -> (tensor<2x4xf64>, tensor<7x2x4xf64>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %back = "stepwell.sub"(%four, %t) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %0 = "stepwell.row"(%x, %back) : (tensor<5x2x3xf64>, tensor<i64>) -> tensor<2x3xf64>
    %1 = "stepwell.matmul"(%h, %w) : (tensor<2x4xf64>, tensor<4x4xf64>) -> tensor<2x4xf64>
    %2 = "stepwell.matmul"(%0, %u) {transpose_rhs = true} : (tensor<2x3xf64>, tensor<4x3xf64>) -> tensor<2x4xf64>
    %3 = "stepwell.add"(%1, %2) : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
    %4 = "stepwell.add"(%3, %b) : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
    %5 = "stepwell.tanh"(%4) : (tensor<2x4xf64>) -> tensor<2x4xf64>
    %6 = "stepwell.with_row"(%s, %5, %back) : (tensor<7x2x4xf64>, tensor<2x4xf64>, tensor<i64>) -> tensor<7x2x4xf64>
    scf.yield %5, %6 : tensor<2x4xf64>, tensor<7x2x4xf64>
  }
  return %r#0, %r#1 : tensor<2x4xf64>, tensor<7x2x4xf64>
}
"""

# Iterations overwrite rows of each other, read a row that all of them read, and exchange what they carry.
SHARED_ROWS = """
func.func @main(%x: tensor<4x3xf64>, %a0: tensor<3xf64>, %b0: tensor<3xf64>, %s0: tensor<2x3xf64>)
    -> (tensor<3xf64>, tensor<2x3xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = "stepwell.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %r:4 = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %a0, %b = %b0, %s = %s0, %k = %one)
      -> (tensor<3xf64>, tensor<3xf64>, tensor<2x3xf64>, tensor<i64>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %0 = "stepwell.row"(%x, %one) : (tensor<4x3xf64>, tensor<i64>) -> tensor<3xf64>
    %1 = "stepwell.row"(%x, %k) : (tensor<4x3xf64>, tensor<i64>) -> tensor<3xf64>
    %2 = "stepwell.mul"(%a, %0) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %3 = "stepwell.mul"(%2, %1) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %4 = "stepwell.with_row"(%s, %3, %t) : (tensor<2x3xf64>, tensor<3xf64>, tensor<i64>) -> tensor<2x3xf64>
    %5 = "stepwell.add"(%k, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    scf.yield %b, %3, %4, %5 : tensor<3xf64>, tensor<3xf64>, tensor<2x3xf64>, tensor<i64>
  }
  return %r#1, %r#2 : tensor<3xf64>, tensor<2x3xf64>
}
"""

NESTED = """
func.func @main(%c: tensor<3xi1>, %x: tensor<3x4x2xf64>, %w: tensor<2x2xf64>, %h0: tensor<1x2xf64>)
    -> (tensor<1x2xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %h0) -> (tensor<1x2xf64>) {
    %n = arith.index_cast %i : index to i64
    %t = tensor.from_elements %n : tensor<i64>
    %rows = "stepwell.row"(%x, %t) : (tensor<3x4x2xf64>, tensor<i64>) -> tensor<4x2xf64>
    %flag = tensor.extract %c[%i] : tensor<3xi1>
    %s = scf.for %j = %c0 to %c4 step %c1 iter_args(%g = %h) -> (tensor<1x2xf64>) {
      %m = arith.index_cast %j : index to i64
      %u = tensor.from_elements %m : tensor<i64>
      %0 = "stepwell.row"(%rows, %u) : (tensor<4x2xf64>, tensor<i64>) -> tensor<2xf64>
      %1 = "stepwell.matmul"(%g, %w) : (tensor<1x2xf64>, tensor<2x2xf64>) -> tensor<1x2xf64>
      %2 = "stepwell.add"(%1, %0) : (tensor<1x2xf64>, tensor<2xf64>) -> tensor<1x2xf64>
      %3 = scf.if %flag -> (tensor<1x2xf64>) {
        %4 = "stepwell.sin"(%2) : (tensor<1x2xf64>) -> tensor<1x2xf64>
        scf.yield %4 : tensor<1x2xf64>
      } else {
        %4 = "stepwell.mul"(%2, %0) : (tensor<1x2xf64>, tensor<2xf64>) -> tensor<1x2xf64>
        scf.yield %4 : tensor<1x2xf64>
      }
      scf.yield %3 : tensor<1x2xf64>
    }
    scf.yield %s : tensor<1x2xf64>
  }
  return %r : tensor<1x2xf64>
}
"""

# Ends when the sum of the carried values is greater than 3, or after 6 iterations.
BOUNDED = """
func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %true = arith.constant true
  %most = "stepwell.constant"() {value = dense<3.0> : tensor<f64>} : () -> tensor<f64>
  %r:3 = scf.while (%n = %c0, %goes = %true, %v = %x) : (index, i1, tensor<3xf64>) -> (index, i1, tensor<3xf64>) {
    %early = arith.cmpi slt, %n, %c6 : index
    %both = arith.andi %early, %goes : i1
    scf.condition(%both) %n, %goes, %v : index, i1, tensor<3xf64>
  } do {
  ^bb0(%n: index, %goes: i1, %v: tensor<3xf64>):
    %0 = "stepwell.mul"(%v, %y) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %1 = "stepwell.add"(%0, %v) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf64>) -> tensor<f64>
    %3 = "stepwell.less"(%2, %most) : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %4 = tensor.extract %3[] : tensor<i1>
    %5 = arith.addi %n, %c1 : index
    scf.yield %5, %4, %1 : index, i1, tensor<3xf64>
  }
  return %r#2 : tensor<3xf64>
}
"""
