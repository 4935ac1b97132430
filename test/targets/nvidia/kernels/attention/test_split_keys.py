"""Attention of few queries to many keys, split into parts that a second launch combines."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for

from .test_attention import RNG, TOLERANCE, TYPES, attention, drawn, expected


def _check(made, element: str, wanted: np.ndarray) -> None:
    assert made.schedules == ["attention", "elements"] and made.launches == 2
    np.testing.assert_allclose(made.result, wanted, atol=TOLERANCE[element])
    assert not made.conflicts.total()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("element", "shapes"),
    [
        ("f32", [(1, 1, 1, 64), (1, 1, 700, 64), (1, 1, 700, 64)]),
        ("f16", [(1, 4, 1, 64), (1, 2, 640, 64), (1, 2, 640, 64)]),
        ("bf16", [(2, 4, 3, 64), (2, 1, 801, 64), (2, 1, 801, 72)]),
    ],
)
def test_parts_make_the_whole(simulated, spills, element, shapes):
    arrays = drawn(shapes, element)
    made = simulated(attention(shapes, element), *arrays, start="graph")
    _check(made, element, expected(arrays))
    assert spills(made.ptx) == 0


def test_masks_of_bits_and_parts_without_any_unmasked_key(simulated):
    shapes, element = [(1, 2, 2, 32), (1, 2, 700, 32), (1, 2, 700, 32)], "f16"
    arrays, mask = drawn(shapes, element), (RNG.random((1, 1, 2, 700)) < 0.5).astype(np.int8)
    mask[0, 0, 1, :300] = 0
    made = simulated(attention(shapes, element, "tensor<1x1x2x700xi1>"), *arrays, mask, start="graph")
    _check(made, element, expected(arrays, mask))


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_numbers_added_and_queries_that_attend_to_nothing(simulated, element):
    shapes = [(2, 1, 2, 32), (2, 1, 600, 32), (2, 1, 600, 32)]
    arrays, mask = drawn(shapes, element), RNG.standard_normal((2, 1, 2, 600)).astype(TYPES[element])
    mask[0, 0, 1, 100:] = mask[1, 0, 0] = -np.inf
    text = attention(shapes, element, f"tensor<2x1x2x600x{element}>", zero_empty=True)
    made = simulated(text, *arrays, mask, start="graph")
    _check(made, element, np.nan_to_num(expected(arrays, mask)))


def test_on_warp_groups(simulated, spills):
    shapes, element = [(1, 1, 70, 64), (1, 1, 1100, 64), (1, 1, 1100, 64)], "bf16"
    arrays = drawn(shapes, element)
    made = simulated(attention(shapes, element), *arrays, start="graph", target="cuda:sm_90a")
    _check(made, element, expected(arrays))
    assert "wgmma" in made.ptx and spills(made.ptx) == 0


@pytest.mark.parametrize(
    "shapes",
    [
        [(4, 32, 1, 32), (4, 32, 1000, 32), (4, 32, 1000, 32)],
        [(1, 2, 1, 32), (1, 2, 200, 32), (1, 2, 200, 32)],
        [(1, 2, 1, 32), (1, 2, 1000, 32), (1, 2, 1000, 30)],
    ],
    ids=["blocks enough", "few keys", "odd depth"],
)
def test_attention_that_gains_nothing_is_not_split(shapes):
    assert _launches(attention(shapes, "f16")) == 1


def test_attention_with_a_band_is_not_split():
    shapes = [(1, 2, 4, 32), (1, 2, 1000, 32), (1, 2, 1000, 32)]
    assert _launches(attention(shapes, "f16", after=900)) == 1
    assert _launches(attention(shapes, "f16")) == 2


def _launches(text: str) -> int:
    """Returns the number of launches for a model of one kernel."""
    with compiler_context() as context:
        load_dialects(context)
        module = ir.Module.parse(text)
        route.run(module, state_for("cuda:sm_80"), "graph", "tiled")
        return sum("stepwell.launch" in op.attributes for op in module.body.operations)
