"""A sum of convolutions becomes one convolution: kernels of all sizes, pads and dilations, on the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir
from mlir.dialects import func
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.constant import ParameterOp
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.dialects.stepwell.elementwise import AddOp
from stepwell.passes.infra.pipeline import Pipeline


@st.composite
def branches(draw: st.DrawFn) -> list[tuple[tuple[int, int], tuple[int, int, int, int]]]:
    """Draws kernels, with pads that keep their windows inside those of the first."""
    height, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    found = [((height, width), (height, width, height, width))]
    for _ in range(draw(st.integers(1, 2))):
        rows, columns = draw(st.integers(1, height)), draw(st.integers(1, width))
        above, left = draw(st.integers(0, height - rows)), draw(st.integers(0, width - columns))
        below, right = height - rows - above, width - columns - left
        found.append(((rows, columns), (height - above, width - left, height - below, width - right)))
    return draw(st.permutations(found))


@pytest.mark.sweep
@settings(max_examples=60, deadline=None)
@given(windows=branches(), stride=st.integers(1, 2), dilation=st.integers(1, 2), group=st.sampled_from([1, 2]))
def test_branches_that_add_up(windows: list, stride: int, dilation: int, group: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 4, 9, 9), np.float32)
    context = ir.Context()
    load_dialects(context)
    parameters: dict[str, np.ndarray] = {}
    with context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.RankedTensorType.get(x.shape, ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([kind], []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            total = None
            for number, (kernel, pads) in enumerate(windows):
                weight = rng.standard_normal((6, 4 // group, *kernel), np.float32)
                parameters[f"w{number}"] = weight
                loaded = ParameterOp(name=f"w{number}", shape=weight.shape, dtype=weight.dtype).result
                padded = tuple(pad * dilation for pad in pads)
                steps = {"pads": padded, "dilations": (dilation,) * 2, "strides": (stride,) * 2, "group": group}
                branch = ConvOp(block.arguments[0], loaded, **steps).result
                total = branch if total is None else AddOp(total, branch).result
            assert total is not None
            func.ReturnOp([total])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([kind], [total.type]))
        (before,) = evaluate(module, "main", [x], parameters)
        Pipeline(("stepwell-merge-convolutions",)).run(module)
        (after,) = evaluate(module, "main", [x], parameters)
        assert str(module).count('"stepwell.conv"') == 1
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
