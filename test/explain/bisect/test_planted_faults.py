"""Faults planted in passes, rules and references: each is found by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from mlir.dialects import arith
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.elementwise import MulOp, ReluOp, SubOp
from stepwell.dialects.stepwell.normalization import SoftmaxOp
from stepwell.driver.sources.reading import read_source
from stepwell.driver.sources.source import ModelSource
from stepwell.explain.bisect.model import Bisector
from stepwell.explain.bisect.result import Fault
from stepwell.lowering.linalg_to_vector.vectorize import VectorizePass
from stepwell.lowering.stepwell_to_linalg import epilogues, normalization, rules
from stepwell.lowering.vector_to_llvm.lower_vectors import LowerVectorsPass
from stepwell.passes.graph.constants import fold_constants
from stepwell.passes.graph.patterns import algebra, batch_norm
from stepwell.passes.graph.simplification.dce import DcePass
from stepwell.passes.ir.rewriting import Pattern, walk
from stepwell.passes.memref import arena
from stepwell.passes.memref.buffers import BufferAnalysis
from stepwell.passes.vector import approximate_math
from stepwell.passes.vector.approximations.arithmetic import Arithmetic

RNG = np.random.default_rng(0)
Planter = pytest.MonkeyPatch


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "w": floats(8, 4, 3, 3),
    "scale": floats(8),
    "shift": floats(8),
    "mean": floats(8),
    "variance": np.abs(floats(8)) + 1,
    "dense": floats(8, 16),
    "bias": floats(16),
    "two": np.float32([1.5]),
    "three": np.float32([2.5]),
}
NODES = [
    helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
    helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], "norm"),
    helper.make_node("Relu", ["n"], ["r"], "relu"),
    helper.make_node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 3, 1]),
    helper.make_node("MatMul", ["t", "dense"], ["m"], "product"),
    helper.make_node("Add", ["m", "bias"], ["a"], "plus"),
    helper.make_node("Mul", ["two", "three"], ["f"], "factor"),
    helper.make_node("Mul", ["a", "f"], ["g"], "times"),
    helper.make_node("Softmax", ["g"], ["s"], "soft", axis=-1),
    helper.make_node("Sigmoid", ["s"], ["y"], "squash"),
]


def model() -> ModelSource:
    stored = [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()]
    graph = helper.make_graph(
        NODES,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 6, 16])],
        stored,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return read_source(made)


INPUTS = {"x": floats(1, 4, 6, 6)}


def find(**options: Any) -> Fault:
    found = Bisector(**options).bisect(model(), INPUTS).fault
    assert found is not None
    assert found.difference.is_wrong
    return found


def test_nothing_is_wrong() -> None:
    found = Bisector().bisect(model(), INPUTS)
    assert found.fault is None
    assert [level.name for level in found.levels] == ["import", "graph", "kernel", "program"]
    assert all(level.checked and not level.largest.is_wrong for level in found.levels)


def test_reference_of_an_op(monkeypatch: Planter) -> None:
    monkeypatch.setattr(ReluOp, "reference", staticmethod(lambda x: np.maximum(x, x.dtype.type(0.5))))
    fault = find()
    assert (fault.level, fault.nodes, fault.op_type) == ("import", ("relu",), "Relu")


def test_reference_is_numpy(monkeypatch: Planter) -> None:
    right = SoftmaxOp.reference
    monkeypatch.setattr(SoftmaxOp, "reference", staticmethod(lambda x, **rest: right(x, **rest) * x.dtype.type(1.1)))
    fault = find(reference="numpy")
    assert (fault.level, fault.nodes) == ("import", ("soft",))


FOLDED = """
func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}) -> (tensor<4xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32> loc("c")
  %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("powers")
  %2 = "stepwell.add"(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("sum")
  return %2 : tensor<4xf32>
}
"""


def test_constant_folding(monkeypatch: Planter) -> None:
    right = fold_constants.constant
    monkeypatch.setattr(fold_constants, "constant", lambda array: right(array + (array.dtype.kind == "f")))
    fault = Bisector().bisect(read_source(FOLDED.encode()), {"x": floats(4)}).fault
    assert fault is not None
    assert (fault.level, fault.pass_name, fault.nodes) == ("graph", "stepwell-fold-constants", ("powers",))


class _ReluIsNothing(Pattern[ReluOp]):
    """relu(x) --> x, which is wrong"""

    root = ReluOp

    def rewrite(self, op: ReluOp) -> Any:
        return op.operation.operands[0]


class _MulIsSub(Pattern[MulOp]):
    """x * y --> x - y, which is wrong"""

    root = MulOp

    def rewrite(self, op: MulOp) -> Any:
        return SubOp(*op.operation.operands).result


def test_pattern_of_algebra(monkeypatch: Planter) -> None:
    monkeypatch.setattr(algebra, "PATTERNS", (*algebra.PATTERNS, _ReluIsNothing()))
    fault = find()
    assert (fault.pass_name, fault.pattern, fault.nodes) == ("stepwell-canonicalize", "_ReluIsNothing", ("relu",))


def test_pattern_of_batch_norms(monkeypatch: Planter) -> None:
    monkeypatch.setattr(batch_norm, "PATTERNS", (_MulIsSub(), *batch_norm.PATTERNS))
    fault = find()
    assert (fault.pass_name, fault.pattern) == ("stepwell-fold-batch-norm", "_MulIsSub")


def test_pass_without_patterns(monkeypatch: Planter) -> None:
    right = DcePass.run

    def run(self: DcePass, op: Any, state: Any) -> None:
        for inner in list(walk(op)):
            if inner.name == "stepwell.relu":
                inner.results[0].replace_all_uses_with(inner.operands[0])
        right(self, op, state)

    monkeypatch.setattr(DcePass, "run", run)
    fault = find()
    assert (fault.level, fault.pass_name, fault.pattern) == ("graph", "stepwell-dce", "")


@pytest.mark.sweep
def test_rule_that_lowers_an_op(monkeypatch: Planter) -> None:
    right = rules.LINALG.of(SoftmaxOp)
    assert right is not None

    def softmax(op: SoftmaxOp, inputs: list[Any], outs: list[Any]) -> list[Any]:
        return right(op, right(op, inputs, outs), outs)

    of = rules.LINALG.of
    monkeypatch.setattr(rules.LINALG, "of", lambda kind: softmax if kind is SoftmaxOp else of(kind))
    fault = find()
    assert (fault.level, fault.pass_name, fault.op_type) == (
        "kernel",
        "stepwell-convert-to-linalg",
        "stepwell.softmax",
    )


@pytest.mark.sweep
def test_epilogue(monkeypatch: Planter) -> None:
    right = epilogues.scalar_body

    def scalar_body(op: Any) -> Any:
        body = right(op)
        return (lambda *values: arith.addf(body(*values), values[0])) if isinstance(op, ReluOp) else body

    monkeypatch.setattr(epilogues, "scalar_body", scalar_body)
    fault = find()
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-convert-to-linalg")
    assert (fault.op_type, fault.nodes) == ("stepwell.relu", ("relu",))


@pytest.mark.sweep
def test_approximation(monkeypatch: Planter) -> None:
    for table in (approximate_math.FUNCTIONS, approximate_math._SHORTER):
        known = table["math.exp"]

        def exp(*arguments: Any, known: Any = known, **rest: Any) -> Any:
            value = known(*arguments, **rest)
            return arith.AddFOp(value, value).result

        monkeypatch.setitem(table, "math.exp", exp)
    fault = find()
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-approximate-math")
    assert fault.nodes


def _double_stores(op: Any) -> None:
    for inner in list(walk(op)):
        if inner.name == "vector.transfer_write":
            with inner.location, ir.InsertionPoint(inner):
                value = inner.operands[0]
                inner.operands[0] = arith.AddFOp(value, value).result


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [VectorizePass, LowerVectorsPass], ids=lambda kind: kind.name)
def test_vector_pass(monkeypatch: Planter, kind: Any) -> None:
    right = kind.run

    def run(self: Any, op: Any, state: Any) -> None:
        if kind is LowerVectorsPass:
            _double_stores(op)
        right(self, op, state)
        if kind is VectorizePass:
            _double_stores(op)

    monkeypatch.setattr(kind, "run", run)
    fault = find()
    assert (fault.level, fault.pass_name) == ("kernel", kind.name)


def test_memory_plan(monkeypatch: Planter) -> None:
    right = arena.place

    def place(lifetimes: Any) -> Any:
        return [replace(item, offset=0) for item in right(lifetimes)]

    monkeypatch.setattr(arena, "place", place)
    fault = find()
    assert (fault.level, fault.pass_name) == ("program", "stepwell-plan-memory")
    assert "two buffers overlap" in fault.note


@pytest.mark.sweep
def test_lifetime_that_ends_early(monkeypatch: Planter) -> None:
    right = BufferAnalysis.arena_buffers

    def arena_buffers(self: BufferAnalysis) -> Any:
        buffers = right(self)
        for buffer in buffers:
            buffer.last = buffer.first
        return buffers

    monkeypatch.setattr(BufferAnalysis, "arena_buffers", arena_buffers)
    fault = find()
    assert (fault.level, fault.pass_name) == ("program", "stepwell-plan-memory")
    assert "two buffers overlap" in fault.note


def test_results_that_are_never_written(monkeypatch: Planter) -> None:
    right = LowerVectorsPass.run

    def run(self: Any, op: Any, state: Any) -> None:
        for inner in list(walk(op)):
            if inner.name == "vector.transfer_write":
                inner.erase()
        right(self, op, state)

    monkeypatch.setattr(LowerVectorsPass, "run", run)
    fault = find()
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-lower-vectors")
    assert "never written" in str(fault.difference)


@pytest.mark.sweep
def test_softmax_without_its_maximum(monkeypatch: Planter) -> None:
    right = normalization._greatest

    def greatest(value: Any, axis: int) -> Any:
        found = right(value, axis)
        return normalization.elementwise_over([found], lambda item: normalization.number(0, item.type), found)

    monkeypatch.setattr(normalization, "_greatest", greatest)
    fault = Bisector().bisect(model(), {"x": INPUTS["x"] / 100}).fault
    assert fault is not None
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-convert-to-linalg")
    assert "64 times as large" in fault.note


def test_function_beyond_its_error_bound(monkeypatch: Planter) -> None:
    for table in (approximate_math.FUNCTIONS, approximate_math._SHORTER):
        known = table["math.exp"]

        def exp(*arguments: Any, known: Any = known, **rest: Any) -> Any:
            value = known(*arguments, **rest)
            return arith.mulf(value, Arithmetic(value.type).number(1 + 350 * 2.0**-23))

        monkeypatch.setitem(table, "math.exp", exp)
    fault = find()
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-approximate-math")


def test_rounding_that_a_softmax_amplifies_is_not_a_fault() -> None:
    # The sums are equal in exact arithmetic, but each order of their terms rounds differently.
    column = RNG.standard_normal(512) * 1e6
    weight = np.stack([RNG.permutation(column) for _ in range(16)], axis=1).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["l"], "logits"), helper.make_node("Softmax", ["l"], ["y"], "soft")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size]) for name, size in (("x", 512), ("y", 16)))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    found = Bisector().bisect(read_source(made), {"x": np.ones((4, 512), np.float32)})
    assert found.fault is None, str(found.fault)
