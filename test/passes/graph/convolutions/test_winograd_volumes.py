"""A convolution over volumes becomes one over stacked planes: all depths of kernels, on the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from stepwell.dialects import discardable
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.constant import ParameterOp
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.passes.graph.convolutions.choose_winograd import ChooseWinogradPass
from stepwell.passes.infra.pipeline import Pipeline


@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "low", "high"), [(3, 1, 1, 1, 1), (1, 2, 1, 0, 0), (2, 2, 3, 2, 0)]
)
def test_planes_become_channels(taps: int, stride: int, dilation: int, low: int, high: int) -> None:
    module, arguments, parameters = _convolution(taps, stride, dilation, low, high)
    with module.context, ir.Location.unknown():
        (before,) = evaluate(module, "main", arguments, parameters)
        Pipeline((ChooseWinogradPass(tile=4),)).run(module)
        assert "stepwell.winograd_conv" in str(module)
        (after,) = evaluate(module, "main", arguments, parameters)
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


def test_extents_that_vary_keep_the_volumes() -> None:
    module, _, _ = _convolution(3, 1, 1, 1, 1)
    with module.context, ir.Location.unknown():
        discardable.RANGES.write(module.operation, {})
        Pipeline((ChooseWinogradPass(tile=4),)).run(module)
    assert "stepwell.winograd_conv" not in str(module)


def _convolution(
    taps: int, stride: int, dilation: int, low: int, high: int
) -> tuple[ir.Module, list[np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 7, 6, 4), np.float32)
    parameters = {"w": rng.standard_normal((6, 4, taps, 3, 3), np.float32), "b": rng.standard_normal(6, np.float32)}
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.RankedTensorType.get(x.shape, ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([kind], []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            weight, bias = (
                ParameterOp(name=name, shape=array.shape, dtype=array.dtype).result
                for name, array in parameters.items()
            )
            steps = {"strides": (stride, 1, 1), "dilations": (dilation, 1, 1), "pads": (low, 1, 1, high, 0, 2)}
            result = ConvOp(block.arguments[0], weight, bias, layout="channels_last", **steps).result
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([kind], [result.type]))
    return module, [x], parameters
