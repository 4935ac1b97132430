"""Ops after a backward pass move up to the values that they read."""

from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.passes.differentiation.order import move_up
from stepwell.passes.ir.functions import body_of, main_function

TEXT = """
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>, %m: tensor<4xf32>)
  -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stepwell.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "stepwell.neg"(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "stepwell.abs"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "stepwell.mul"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = "stepwell.add"(%0, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = "stepwell.sqrt"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  return %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""


def order(start):
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        body = body_of(main_function(module.operation))
        move_up(body, start)
        assert module.operation.verify()
        return [view.operation.name.removeprefix("stepwell.") for view in body.operations][:-1]


def test_a_step_follows_the_gradient_that_it_reads():
    # `add` needs `exp` only, and takes `abs` along; `neg` goes to its reader, and `sqrt` has none.
    assert order(2) == ["exp", "abs", "add", "tanh", "neg", "mul", "sqrt"]


def test_negative_ops_before_the_start_stay():
    assert order(7) == ["exp", "tanh", "neg", "abs", "mul", "add", "sqrt"]
