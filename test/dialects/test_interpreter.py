"""The interpreter: functions, control flow, scalars, parameters, lifetimes, errors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import EvaluationError, evaluate
from stepwell.dialects.stepwell.elementwise import AbsOp, NegOp
from stepwell.dialects.verifier import verify

F32 = np.float32


def run(text: str, *inputs: np.ndarray, entry: str = "main", **parameters: np.ndarray) -> list[np.ndarray]:
    module = ir.Module.parse(text)
    verify(module)
    return evaluate(module, entry, inputs, parameters)


CONDITIONAL = """
func.func @main(%c: tensor<i1>, %x: tensor<?xf32>) -> tensor<?xf32> {
  %b = tensor.extract %c[] : tensor<i1>
  %0 = scf.if %b -> tensor<?xf32> {
    %1 = func.call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
    scf.yield %1 : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %0 : tensor<?xf32>
}
func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "stepwell.add"(%x, %x) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_conditional_and_call(context, condition):
    (result,) = run(CONDITIONAL, np.array(condition), np.array([1, 2], F32))
    np.testing.assert_array_equal(result, [2, 4] if condition else [1, 2])


LOOP = """
func.func @main(%x: tensor<2xf32>, %n: tensor<i64>) -> tensor<2xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = tensor.extract %n[] : tensor<i64>
  %limit = arith.index_cast %count : i64 to index
  %0 = scf.for %i = %zero to %limit step %one iter_args(%sum = %x) -> tensor<2xf32> {
    %1 = "stepwell.add"(%sum, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
"""


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop_reads_outer_values_in_every_round(context, count):
    (result,) = run(LOOP, np.array([1, 2], F32), np.array(count))
    np.testing.assert_array_equal(result, np.array([1, 2]) * (count + 1))


def test_scalars_and_tensors(context):
    text = """
    func.func @main(%x: tensor<?x3xf32>) -> (tensor<2xi64>, tensor<?xf32>, tensor<2xi32>) {
      %zero = arith.constant 0 : index
      %two = arith.constant 2 : i64
      %rows = tensor.dim %x, %zero : tensor<?x3xf32>
      %n = arith.index_cast %rows : index to i64
      %more = arith.cmpi sgt, %n, %two : i64
      %most = arith.select %more, %two, %n : i64
      %product = arith.muli %n, %two : i64
      %pair = tensor.from_elements %most, %product : tensor<2xi64>
      %empty = tensor.empty(%rows) : tensor<?xf32>
      %literal = arith.constant dense<[3, 4]> : tensor<2xi32>
      return %pair, %empty, %literal : tensor<2xi64>, tensor<?xf32>, tensor<2xi32>
    }"""
    pair, empty, literal = run(text, np.zeros((5, 3), F32))
    assert (pair.tolist(), empty.shape, literal.tolist()) == ([2, 10], (5,), [3, 4])


PARAMETER = """
func.func @main() -> tensor<2xf32> {
  %0 = "stepwell.parameter"() {name = "w", shape = array<i64: 2>, dtype = f32} : () -> tensor<2xf32> loc("fc1")
  return %0 : tensor<2xf32>
}
"""


def test_parameters_are_passed_to_the_interpreter(context):
    assert run(PARAMETER, w=np.array([1, 2], F32))[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "parameter 'w' was not given"),
        ({"w": np.zeros(3, F32)}, "parameter 'w' must be 2xf32, but is 3xf32"),
        ({"w": np.zeros(2)}, "parameter 'w' must be 2xf32, but is 2xf64"),
    ],
)
def test_wrong_parameters_are_refused_at_their_op(context, parameters, message):
    with pytest.raises(EvaluationError, match=message) as caught:
        run(PARAMETER, **parameters)
    assert "fc1" in str(caught.value.location)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "'twice' takes 1 input, but 0 were given"),
        ([np.zeros(2)], r"input 0 of 'twice' must be \?xf32, but is 2xf64"),
        ([np.zeros((2, 2), F32)], r"input 0 of 'twice' must be \?xf32, but is 2x2xf32"),
    ],
)
def test_wrong_inputs_are_refused(context, inputs, message):
    with pytest.raises(EvaluationError, match=message):
        run(CONDITIONAL, *inputs, entry="twice")


def test_unknown_ops_and_functions_are_refused_with_their_location(context):
    with pytest.raises(EvaluationError, match=r"'math\.exp' cannot be evaluated") as caught:
        run("func.func @main(%x: tensor<2xf32>) { %0 = math.exp %x : tensor<2xf32> return }", np.zeros(2, F32))
    assert caught.value.location is not None
    with pytest.raises(EvaluationError, match="there is no function 'other' with a body"):
        run(CONDITIONAL, entry="other")


def test_invalid_contents_of_operands_are_refused_with_the_op_s_location(context):
    text = """
    func.func @main(%x: tensor<2xf32>, %s: tensor<1xi64>) -> tensor<?xf32> {
      %0 = "stepwell.dynamic_reshape"(%x, %s) : (tensor<2xf32>, tensor<1xi64>) -> tensor<?xf32> loc("form")
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(EvaluationError, match=r"'stepwell\.dynamic_reshape' .*3") as caught:
        run(text, np.zeros(2, F32), np.array([3]))
    assert "form" in str(caught.value.location)


def test_values_are_let_go_after_their_last_use(context, monkeypatch):
    """The second op's operand is dead when the third runs, although its result is still needed."""
    made: list[weakref.ref] = []

    def note(array: np.ndarray) -> np.ndarray:
        fresh = np.negative(array)
        made.append(weakref.ref(fresh))
        return fresh

    def look(array: np.ndarray) -> np.ndarray:
        gc.collect()
        assert [ref() is None for ref in made] == [True, False]
        return np.abs(array)

    monkeypatch.setattr(NegOp, "reference", staticmethod(note))
    monkeypatch.setattr(AbsOp, "reference", staticmethod(look))
    text = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = "stepwell.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = "stepwell.neg"(%0) : (tensor<2xf32>) -> tensor<2xf32>
      %2 = "stepwell.abs"(%1) : (tensor<2xf32>) -> tensor<2xf32>
      return %1, %2 : tensor<2xf32>, tensor<2xf32>
    }"""
    assert [array.tolist() for array in run(text, np.array([1, -1], F32))] == [[1, -1], [1, 1]]
