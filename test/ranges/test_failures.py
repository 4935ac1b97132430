"""Compiler failures in a range: each size is compiled by itself, and a warning says how to report the failure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import stepwell
from mlir import ir
from stepwell.dialects import discardable
from stepwell.driver import route
from stepwell.passes.infra.base import Pass, PassError, register
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import kernels_in
from stepwell.passes.ir.rewriting import walk
from stepwell.passes.ranges.rewriter import PADDING

MODEL = b"""func.func @main(%x: tensor<?x8xf32> {stepwell.name = "x", stepwell.dims = ["n", 8]})
    -> (tensor<?x8xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.exp"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> loc("first")
  return %0 : tensor<?x8xf32>
}"""


@register
@dataclass(frozen=True)
class FailInRangesPass(Pass):
    """Fail at kernels that are for several sizes."""

    name = "test-fail-in-ranges"
    is_bug: bool = False

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Fail at the first op of such a kernel."""
        for kernel in kernels_in(op):
            if discardable.EXTENTS.is_on(kernel) and self.is_bug:
                raise IndexError("planted")
            if discardable.EXTENTS.is_on(kernel):
                raise PassError("planted", next(iter(walk(kernel))).location)


def _compile(fallback: str) -> stepwell.Executable:
    options = stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback=fallback)
    return stepwell.compile(MODEL, threads=1, options=options)


def _plant(monkeypatch: pytest.MonkeyPatch, is_bug: bool) -> None:
    planted = FailInRangesPass(is_bug)

    def phase(item: route.Phase) -> route.Phase:
        if item.name != "tiled":
            return item
        return route.Phase(
            item.name,
            item.summary,
            lambda target: Pipeline((planted, *item.pipeline(target).elements)),
            item.check,
        )

    changed = tuple(map(phase, route.phases_of("cpu")))
    monkeypatch.setattr(route, "phases_of", lambda target: changed)


def _check(executable: stepwell.Executable) -> None:
    for size in (1, 4):
        x = np.random.default_rng(size).standard_normal((size, 8), np.float32)
        np.testing.assert_allclose(executable(x), np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("is_bug", [False, True])
def test_a_pass_that_fails_in_a_range_costs_a_compile_per_size(is_bug, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch, is_bug)
    with pytest.warns(UserWarning, match="compiled for each size separately") as caught:
        executable = _compile("warn")
    (message,) = (str(item.message) for item in caught)
    for part in ("pass test-fail-in-ranges", "node 'first'", "planted", "please report it", str(tmp_path)):
        assert part in message
    assert executable.unranged and executable.unranged in message
    _check(executable)


@pytest.mark.parametrize("is_bug", [False, True])
def test_a_pass_that_fails_in_a_range_is_an_error_on_demand(is_bug, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    _plant(monkeypatch, is_bug)
    with pytest.raises(stepwell.PassFailure, match="planted"):
        _compile("error")


def test_a_rule_that_fails_names_its_op(monkeypatch, tmp_path):
    def fails(*_: object) -> None:
        raise IndexError("planted")

    monkeypatch.setenv("STEPWELL_REPRODUCERS", str(tmp_path))
    monkeypatch.setattr(PADDING, "of", lambda kind: fails)
    with pytest.warns(UserWarning, match=r"node 'first'.*'stepwell.exp' op: IndexError: planted"):
        executable = _compile("warn")
    _check(executable)
    with pytest.raises(stepwell.PassFailure, match=r"'stepwell.exp' op: IndexError: planted"):
        _compile("error")
