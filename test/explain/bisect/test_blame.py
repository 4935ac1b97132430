"""The search for the pass that makes a program wrong, on made-up verdicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mlir import ir
from stepwell.driver.context import compiler_context
from stepwell.explain.bisect import blame
from stepwell.explain.bisect.blame import Blamed, Probe, first_wrong
from stepwell.explain.bisect.comparison import Tolerance
from stepwell.explain.bisect.native import lowering_passes, name_of
from stepwell.passes.infra.pipeline import Pipeline

RIGHT = np.ones(4, np.float32)


def probe_of(values: np.ndarray) -> Probe:
    return Probe.of([[values], [values]], [RIGHT], Tolerance(), lambda: [np.zeros(4)])


def search(values: Callable[[list[str]], np.ndarray]) -> Blamed:
    """Returns the result of the search if a pipeline computes `values` of the names of its passes."""
    with compiler_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func private @f()").operation

        def probe(pipeline: Pipeline) -> Probe:
            return probe_of(values([name_of(element) for element in pipeline.elements]))

        return first_wrong(module, "x86-64-v3", probe, lambda text: None)


@pytest.fixture(autouse=True)
def no_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blame, "find_overlap", lambda module, elements: None)


@pytest.mark.parametrize("name", ["stepwell-vectorize", "stepwell-approximate-math", "stepwell-lower-vectors"])
def test_pass_with_a_simpler_form(name: str) -> None:
    found = search(lambda names: RIGHT * (2 if name in names else 1))
    assert (found.pass_name, found.note) == (name, "")


def test_pass_without_a_simpler_form() -> None:
    found = search(lambda names: RIGHT * 2)
    assert found.pass_name == name_of(lowering_passes("x86-64-v3")[0])
    assert not found.note


def test_simple_form_with_a_fault_of_its_own() -> None:
    found = search(lambda names: RIGHT * (2 if "stepwell-vectorize" in names else 3))
    assert found.pass_name == "stepwell-vectorize"
    assert "wrong in another way with simpler passes after" in found.note


def test_verdicts_that_are_not_monotone() -> None:
    def values(names: list[str]) -> np.ndarray:
        hidden = "promote-buffers-to-stack" in names and "stepwell-stream-stores" not in names
        return RIGHT * (2 if "stepwell-vectorize" in names and not hidden else 1)

    assert "the verdicts are not monotone: the fault" in search(values).note


def test_memory_that_nothing_wrote() -> None:
    garbage = np.where([True, True, True, False], RIGHT, 7).astype(np.float32)
    probe = Probe.of([[RIGHT], [garbage]], [RIGHT], Tolerance(), lambda: [np.zeros(4)])
    assert str(probe.difference) == "reads memory that was never written: 1 of 4 values depend on its contents"
