"""Loops over segments of iterations: their results and gradients are those of the loops that were divided."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.verifier import verify
from stepwell.passes.differentiation.differentiate import DifferentiatePass
from stepwell.passes.differentiation.divide_loops import DivideLoopsPass
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import body_of, main_function
from stepwell.passes.ir.named_ops import ops_named

from . import control_flow


@pytest.fixture(scope="module")
def context():
    made = ir.Context()
    load_dialects(made)
    with made, ir.Location.unknown():
        yield made


def _recurrence(count: int) -> str:
    """A recurrence with `count` steps, which goes through its input from the end."""
    text = control_flow.RECURRENCE.replace("5x2x3", f"{count}x2x3").replace("7x2x4", f"{count}x2x4")
    return text.replace("constant 5 : index", f"constant {count} : index").replace("dense<4>", f"dense<{count - 1}>")


def _run(text: str, length: int | None) -> tuple[ir.Module, list[np.ndarray]]:
    """Divides the loop, differentiates it, and evaluates the program."""
    module = ir.Module.parse(text)
    if length is not None:
        DivideLoopsPass(length).run(module.operation, CompileState())
        verify(module)
    DifferentiatePass(seeded=True).run(module.operation, CompileState())
    verify(module)
    random = np.random.default_rng(0)
    kinds = [ir.RankedTensorType(item.type) for item in body_of(main_function(module.operation)).arguments]
    return module, evaluate(module, "main", [random.standard_normal(kind.shape) / 2 for kind in kinds], {})


@pytest.mark.parametrize(("count", "length"), [(16, 0), (25, 0), (30, 0), (17, 16), (20, 3)])
def test_results_and_gradients_stay_the_same(context, count: int, length: int) -> None:
    _, wanted = _run(_recurrence(count), None)
    module, found = _run(_recurrence(count), length)
    assert len(ops_named(module, "scf.for")) > 2
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_few_states_are_saved(context) -> None:
    module, _ = _run(_recurrence(100), 0)
    forward = ops_named(module, "scf.for")[0]
    # The state, the states that are results, and those that are saved: one for each segment.
    kinds = [str(item.type) for item in forward.results]
    assert kinds == ["tensor<2x4xf64>", "tensor<10x10x2x4xf64>", "tensor<10x2x4xf64>"]


@pytest.mark.parametrize("text", [_recurrence(15), control_flow.SHARED_ROWS.replace("constant 4 :", "constant 40 :")])
def test_short_loops_and_those_that_write_rows_out_of_order_stay(context, text: str) -> None:
    module = ir.Module.parse(text)
    before = str(module)
    DivideLoopsPass().run(module.operation, CompileState())
    assert str(module) == before
