"""Products of quantised values of ONNX models on bytes, and the reasons for those that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model
from stepwell.passes.graph.products.multiply_bytes import MultiplyBytesPass
from stepwell.passes.graph.shapes.infer_shapes import InferShapesPass
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.runtime.remarks import MISSED

F32, I8, I16, U8 = np.float32, np.int8, np.int16, np.uint8
WEIGHT = np.random.default_rng(0).integers(-128, 128, (7, 70)).astype(I8)
SCALES = np.linspace(0.01, 0.02, 70, dtype=F32)
LEFT = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"])
RIGHT = helper.make_node("DequantizeLinear", ["w", "t", "u"], ["b"], axis=1)
PRODUCT = helper.make_node("MatMul", ["a", "b"], ["y"], "product")


def model(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], shape: Sequence[int] = (4, 7), kind: type = U8
) -> onnx.ModelProto:
    """Returns a model of an input `x` and constants; by default it dequantises both operands of a matrix product."""
    everything = {"s": F32(0.02), "z": U8(120), "w": WEIGHT, "t": SCALES, "u": np.zeros(70, I8), **constants}
    used = {name for node in nodes for name in node.input}
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in everything.items() if name in used]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def passed(made: onnx.ModelProto) -> tuple[str, list[str]]:
    """Runs the pass, and checks that it does not change what the model computes.

    Returns:
        The product's line of the result, and the reasons for products that were left alone.
    """
    dims = [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim]
    kind = helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type)
    x = np.random.default_rng(1).integers(0, 127, dims).astype(kind)
    imported = import_model(made, ir.Context(), {"x": tuple(dims)})
    (expected,) = evaluate(imported.module, "main", [x], imported.parameters)
    state = CompileState(parameters=dict(imported.parameters))
    Pipeline((InferShapesPass(), MultiplyBytesPass())).run(imported.module, state=state)
    (got,) = evaluate(imported.module, "main", [x], imported.parameters)
    near = 2e-2 if expected.dtype == np.float16 else 2e-4
    np.testing.assert_allclose(got, expected, rtol=near, atol=10 * near)
    lines = str(imported.module).splitlines()
    product = next(line for line in lines if '"stepwell.matmul"(' in line or '"stepwell.conv"(' in line)
    missed = [remark.message for remark in state.remarks if remark.kind == MISSED]
    return product.rsplit(" : ", 1)[-1], missed


@pytest.mark.parametrize("is_per_channel", [True, False])
@pytest.mark.parametrize(("zero", "shift"), [(0, 0), (5, 3)])
@pytest.mark.parametrize("kind", [U8, I8])
def test_products(is_per_channel: bool, zero: int, shift: int, kind: type) -> None:
    scales, zeros = (SCALES, np.full(70, shift, I8)) if is_per_channel else (F32(0.01), I8(shift))
    made = model([LEFT, RIGHT, PRODUCT], {"t": scales, "u": zeros, "z": kind(zero)}, kind=kind)
    line, missed = passed(made)
    assert line == "(tensor<4x7xui8>, tensor<7x70xi8>) -> tensor<4x70xi32>"
    assert missed == []


TRANSPOSE = helper.make_node("Transpose", ["a"], ["m"], perm=[1, 0])
RELU = helper.make_node("Relu", ["a"], ["m"])


@pytest.mark.parametrize(
    ("nodes", "constants", "shape"),
    [
        ([LEFT, RIGHT, helper.make_node("Gemm", ["a", "b"], ["y"], alpha=0.5)], {}, (4, 7)),
        ([LEFT, RIGHT, helper.make_node("Gemm", ["a", "b"], ["y"], transA=1)], {}, (7, 4)),
        ([LEFT, RIGHT, TRANSPOSE, helper.make_node("MatMul", ["m", "b"], ["y"])], {}, (7, 4)),
        ([LEFT, RIGHT, PRODUCT], {}, (2, 3, 7)),
        ([LEFT, RIGHT, PRODUCT], {}, (7,)),
        (
            [
                LEFT,
                helper.make_node("DequantizeLinear", ["w", "t", "u"], ["c"], axis=0),
                helper.make_node("Transpose", ["c"], ["b"], perm=[1, 0]),
                PRODUCT,
            ],
            {"w": np.ascontiguousarray(WEIGHT.T), "u": np.arange(70, dtype=I8)},
            (4, 7),
        ),
        (
            [
                LEFT,
                helper.make_node("DequantizeLinear", ["w", "t", "u"], ["b"], axis=0),
                helper.make_node("Gemm", ["a", "b"], ["y"], transB=1),
            ],
            {"w": np.ascontiguousarray(WEIGHT.T), "u": np.arange(70, dtype=I8)},
            (4, 7),
        ),
    ],
)
def test_other_forms_of_products(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], shape: Sequence[int]
) -> None:
    line, missed = passed(model(nodes, constants, shape))
    assert "xui8>" in line and "xi8>" in line and line.endswith("xi32>")
    assert missed == []


CONV = {"w": WEIGHT.repeat(9, 0)[:54].T.reshape(70, 6, 3, 3), "u": np.zeros(70, I8)}


def convolution(group: int = 1, **attributes: Any) -> list[onnx.NodeProto]:
    return [
        LEFT,
        helper.make_node("DequantizeLinear", ["w", "t", "u"], ["b"], axis=0),
        helper.make_node("Conv", ["a", "b", "bias"], ["y"], "product", group=group, pads=[1, 1, 0, 1], **attributes),
    ]


@pytest.mark.parametrize("scale", [SCALES, SCALES.astype(np.float16)])
def test_weights_of_four_bits_and_narrow_scales(scale: np.ndarray) -> None:
    weight = numpy_helper.from_array((WEIGHT // 16).astype(ml_dtypes.int4), "w")
    nodes = [LEFT, helper.make_node("DequantizeLinear", ["w", "t"], ["b"], axis=1), PRODUCT]
    if scale.dtype == np.float16:
        nodes = [helper.make_node("DequantizeLinear", ["x", "half", "z"], ["a"]), *nodes[1:]]
    made = model(nodes, {"t": scale, "half": np.float16(0.02)})
    made.graph.initializer.remove(next(item for item in made.graph.initializer if item.name == "w"))
    made.graph.initializer.append(weight)
    made.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(scale.dtype)
    line, missed = passed(made)
    assert "xi8>" in line and line.endswith("xi32>")
    assert missed == []


@pytest.mark.parametrize(
    ("constants", "group"),
    [({}, 1), ({"z": U8(0)}, 1), ({"t": F32(0.01), "u": I8(7)}, 1), ({"w": CONV["w"][:, :3]}, 2)],
)
def test_convolutions(constants: Mapping[str, Any], group: int) -> None:
    bias = np.linspace(-1, 1, 70, dtype=F32)
    line, missed = passed(model(convolution(group), {**CONV, "bias": bias, **constants}, (1, 6, 5, 6)))
    assert "xui8>" in line and "xi8>" in line and "xi32>" in line
    assert missed == []


ROW = np.linspace(0.01, 0.02, 4, dtype=F32)
LONG = np.linspace(0.01, 0.02, 7, dtype=F32)
OBSTACLES = {
    "the left operand is computed by stepwell.relu after the dequantisation": (
        [LEFT, RIGHT, RELU, helper.make_node("MatMul", ["m", "b"], ["y"])],
        {},
        (4, 7),
        U8,
    ),
    "the left operand is float32 that was not dequantised": (
        [RIGHT, helper.make_node("MatMul", ["x", "b"], ["y"])],
        {},
        (4, 7),
        F32,
    ),
    "the right operand is float32 that was not dequantised": (
        [LEFT, helper.make_node("MatMul", ["a", "w"], ["y"])],
        {"w": WEIGHT.astype(F32)},
        (4, 7),
        U8,
    ),
    "the right operand is computed in every run": (
        [LEFT, TRANSPOSE, helper.make_node("MatMul", ["a", "m"], ["y"])],
        {},
        (4, 7),
        U8,
    ),
    "the left operand has numbers of int16, not bytes": ([LEFT, RIGHT, PRODUCT], {"z": I16(0)}, (4, 7), I16),
    "the left operand has more than one scale along the sums": (
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"], axis=1), RIGHT, PRODUCT],
        {"s": LONG, "z": np.zeros(7, U8)},
        (4, 7),
        U8,
    ),
    "the right operand has more than one scale along the sums": (
        [LEFT, helper.make_node("DequantizeLinear", ["w", "t"], ["b"], axis=0), PRODUCT],
        {"t": LONG},
        (4, 7),
        U8,
    ),
    "the left operand is transposed and quantised per row": (
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"], axis=1),
            RIGHT,
            helper.make_node("Gemm", ["a", "b"], ["y"], transA=1),
        ],
        {"s": ROW, "z": np.zeros(4, U8)},
        (7, 4),
        U8,
    ),
    "the operands are not a matrix, or a batch of them, and a matrix": (
        [LEFT, helper.make_node("DequantizeLinear", ["w", "t", "u"], ["b"], axis=2), PRODUCT],
        {"w": np.stack([WEIGHT, WEIGHT])},
        (2, 4, 7),
        U8,
    ),
    "the input has more than one scale or zero point": (
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"], axis=1), *convolution()[1:]],
        {**CONV, "bias": np.zeros(70, F32), "s": LONG[:6], "z": np.zeros(6, U8)},
        (1, 6, 5, 6),
        U8,
    ),
    "the weight has more than one scale for an output channel": (
        [LEFT, helper.make_node("DequantizeLinear", ["w", "t"], ["b"], axis=1), *convolution()[2:]],
        {**CONV, "bias": np.zeros(70, F32), "t": LONG[:6]},
        (1, 6, 5, 6),
        U8,
    ),
    "the weight has a zero point for each output channel, or for several groups": (
        convolution(),
        {**CONV, "bias": np.zeros(70, F32), "u": np.arange(70, dtype=I8)},
        (1, 6, 5, 6),
        U8,
    ),
}


@pytest.mark.parametrize("reason", OBSTACLES)
def test_products_that_are_left_alone_say_why(reason: str) -> None:
    nodes, constants, shape, kind = OBSTACLES[reason]
    line, missed = passed(model(nodes, constants, shape, kind))
    assert "xi32>" not in line
    assert missed == [reason]


def test_zero_points_that_enlarge_their_numbers_are_left_alone() -> None:
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "z"], ["h"]), helper.make_node("Cast", ["h"], ["y"], to=1)]
    line, missed = passed(model(nodes, {"z": np.arange(4, dtype=U8)}, (1, 7)))
    assert "tensor<4x7xi32>" in line and missed == []


def test_the_report_of_a_compile_names_the_product() -> None:
    reason = "the right operand has more than one scale along the sums"
    nodes, constants, shape, kind = OBSTACLES[reason]
    run = stepwell.compile(model(nodes, constants, shape, kind), options={"cache": False})
    assert f"slow: product multiplies floats, though it could multiply bytes: {reason}" in run.report().text()
