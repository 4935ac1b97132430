"""Bisection of models with outputs whose sizes depend on data: what lies beyond the data is not compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from mlir.dialects import arith
from onnx import helper
from onnx.helper import np_dtype_to_tensor_dtype
from stepwell.dialects.stepwell.elementwise import NotOp
from stepwell.dialects.stepwell.selecting import NonZeroOp
from stepwell.driver.sources.reading import read_source
from stepwell.explain.bisect.model import Bisector
from stepwell.explain.bisect.result import Bisection
from stepwell.frontend.onnx.ops.movement import selecting
from stepwell.lowering.stepwell_to_linalg.ordering import selecting as lowering

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 30)).astype(np.float32)
MASK = RNG.random(30) < 0.5


def bisected(nodes: list[onnx.NodeProto], outputs: list[str], **inputs: np.ndarray) -> Bisection:
    given = [
        helper.make_tensor_value_info(name, np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "g", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Bisector("x86-64-v3").bisect(read_source(model), inputs)


def nonzero() -> Bisection:
    return bisected([helper.make_node("NonZero", ["mask"], ["y"], "places")], ["y"], mask=MASK)


def compress() -> Bisection:
    return bisected([helper.make_node("Compress", ["x", "mask"], ["y"], "kept", axis=1)], ["y"], x=X, mask=MASK)


def unique() -> Bisection:
    nodes = [helper.make_node("Unique", ["x"], [*"yfic"], "unique")]
    return bisected(nodes, [*"yfic"], x=np.round(X))


def suppress() -> Bisection:
    corner = RNG.uniform(0, 10, (1, 20, 2))
    boxes = np.concatenate([corner, corner + RNG.uniform(0, 4, (1, 20, 2))], -1).astype(np.float32)
    most, overlap = np.array(4), np.array(0.3, np.float32)
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["y"], "boxes")]
    scores = RNG.random((1, 2, 20)).astype(np.float32)
    return bisected(nodes, ["y"], boxes=boxes, scores=scores, most=most, overlap=overlap)


def followed() -> Bisection:
    nodes = [
        helper.make_node("NonZero", ["mask"], ["places"], "places"),
        helper.make_node("Add", ["places", "places"], ["y"], "sum"),
    ]
    return bisected(nodes, ["y"], mask=MASK)


@pytest.mark.few(2)
@pytest.mark.parametrize("made", [nonzero, compress, unique, suppress, followed])
def test_a_right_model_is_right_at_every_level(made: Any) -> None:
    found = made()
    assert found.fault is None
    assert {level.name for level in found.levels} == {"import", "graph", "kernel", "program"}
    assert all(level.checked for level in found.levels)


def test_a_wrong_number_of_elements_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = selecting._total
    monkeypatch.setattr(selecting, "_total", lambda mask: right(NotOp(mask).result))
    fault = nonzero().fault
    assert fault is not None
    assert (fault.level, fault.value, fault.nodes, fault.difference.total) == ("import", "y", ("places",), 1)


def test_a_wrong_reference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = NonZeroOp.reference
    monkeypatch.setattr(NonZeroOp, "reference", staticmethod(lambda input: right(input) + 1))
    fault = nonzero().fault
    assert fault is not None
    assert (fault.level, fault.value, fault.difference.total) == ("import", "y", MASK.sum())


@pytest.mark.few(1)
@pytest.mark.parametrize("made", [nonzero, compress])
def test_a_wrong_lowering_is_found(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = lowering.true_elements

    def false_elements(elements: ir.Value, found: ir.Value) -> tuple[ir.Value, ir.Value]:
        return right(elements, found, lambda values: arith.xori(lowering.is_set(values), lowering.is_set(values)))

    monkeypatch.setattr(lowering, "true_elements", false_elements)
    fault = made().fault
    assert fault is not None
    assert (fault.level, fault.pass_name) == ("kernel", "stepwell-convert-to-linalg")
