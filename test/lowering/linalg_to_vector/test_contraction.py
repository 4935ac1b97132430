"""Contractions and convolutions compiled to native code, against the reference semantics of the ops they come from."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.contraction import ConvOp, MatmulOp
from stepwell.driver.options import Options
from stepwell.lowering.target import Target


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def run(nodes: list, inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray], rank: int) -> np.ndarray:
    """Compiles a model of these nodes and returns its output `y`."""
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return stepwell.compile(model, threads=1, options=Options(cache=False))(*inputs.values())


# Rows and columns with and without remainders; one row; a tail of one column; several groups of columns.
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(128, 64, 32), (41, 71, 40), (1, 300, 17), (2, 7, 1), (3, 1, 5), (16, 97, 8)]
)
def test_matmul_with_epilogue(rng: np.random.Generator, rows: int, columns: int, depth: int) -> None:
    x, scale = rng.standard_normal((rows, depth), np.float32), rng.standard_normal((rows, 1), np.float32)
    w, b = rng.standard_normal((depth, columns), np.float32), rng.standard_normal(columns, np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["0"]),
        helper.make_node("Add", ["0", "b"], ["1"]),
        helper.make_node("Mul", ["1", "s"], ["2"]),
        helper.make_node("Relu", ["2"], ["y"]),
    ]
    result = run(nodes, {"x": x, "s": scale}, {"w": w, "b": b}, 2)
    np.testing.assert_allclose(result, np.maximum((x @ w + b) * scale, 0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "shapes", [((2, 3, 17, 40), (2, 3, 40, 33)), ((2, 3, 17, 40), (3, 40, 33)), ((17, 4), (2, 4, 8))]
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_matmul_of_activations(rng: np.random.Generator, shapes: tuple, is_transposed: bool) -> None:
    x, y = (rng.standard_normal(shape, np.float32) for shape in shapes)
    expected = MatmulOp.reference(x, y, transpose_lhs=False, transpose_rhs=False)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if is_transposed:
        y = np.ascontiguousarray(y.swapaxes(-1, -2))
        axes = [*range(y.ndim - 2), y.ndim - 1, y.ndim - 2]
        nodes = [
            helper.make_node("Transpose", ["w"], ["t"], perm=axes),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ]
    np.testing.assert_allclose(run(nodes, {"x": x, "w": y}, {}, expected.ndim), expected, rtol=1e-5, atol=1e-4)


# One panel; columns left over; batches; several blocks of panels; depths that are no multiple of a vector.
@pytest.mark.parametrize(
    ("rows", "columns"),
    [((9, 50), (20, 50)), ((60, 513), (1027, 513)), ((3, 12, 40), (3, 70, 40)), ((33, 8), (512, 8))],
)
@pytest.mark.parametrize("has_epilogue", [False, True])
def test_kernels_pack_transposed_operands(
    rng: np.random.Generator, rows: tuple, columns: tuple, has_epilogue: bool
) -> None:
    x, w = (rng.standard_normal(shape, np.float32) for shape in (rows, columns))
    axes = [*range(w.ndim - 2), w.ndim - 1, w.ndim - 2]
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=axes),
        helper.make_node("MatMul", ["x", "t"], ["0" if has_epilogue else "y"]),
        *([helper.make_node("Relu", ["0"], ["y"])] if has_epilogue else []),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("w", w))]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * x.ndim)]
    graph = helper.make_graph(nodes, "one", ports, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    compiled = stepwell.compile(model, threads=2, options=Options(cache=False))
    expected = x @ w.swapaxes(-1, -2)
    np.testing.assert_allclose(
        compiled(x, w), np.maximum(expected, 0) if has_epilogue else expected, rtol=1e-5, atol=1e-4
    )
    assert len(compiled.report().record()["programs"][0]["kernels"]) == 1


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("shape", "filters", "attributes"),
    [
        ((1, 24, 20, 20), (48, 24, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((1, 3, 31, 29), (32, 3, 7, 7), {"pads": (3, 3, 3, 3), "strides": (2, 2)}),
        ((2, 24, 7, 7), (31, 24, 1, 1), {}),
        ((2, 24, 9, 8), (20, 24, 1, 1), {"strides": (2, 2)}),
        ((2, 24, 20, 20), (44, 6, 3, 2), {"group": 4, "strides": (1, 2)}),
        ((1, 8, 17, 18), (20, 8, 3, 3), {"dilations": (2, 2), "pads": (2, 2, 2, 2)}),
        ((1, 24, 50), (20, 24, 5), {"pads": (2, 2)}),
        ((1, 8, 5, 6, 7), (20, 8, 3, 3, 3), {"pads": (1, 1, 1, 1, 1, 1)}),
        ((1, 24, 21, 21), (24, 1, 5, 5), {"group": 24, "strides": (2, 2), "pads": (2, 2, 2, 2)}),
        ((2, 88, 9, 9), (88, 1, 3, 3), {"group": 88, "pads": (1, 1, 1, 1)}),
        ((1, 8, 17, 18), (16, 1, 3, 3), {"group": 8}),
        ((1, 40, 17, 18), (40, 4, 3, 3), {"group": 10, "pads": (1, 1, 1, 1)}),
        ((2, 40, 17, 9), (40, 8, 5, 5), {"group": 5, "strides": (2, 2)}),
        ((1, 12, 9, 9), (48, 2, 3, 2), {"group": 6, "dilations": (1, 2)}),
        ((1, 72, 50), (72, 4, 3), {"group": 18, "pads": (1, 1)}),
        ((1, 32, 7, 7), (32, 4, 1, 1), {"group": 8}),
        ((1, 8, 5, 6, 7), (16, 2, 3, 3, 3), {"group": 4, "pads": (1, 1, 1, 1, 1, 1)}),
    ],
)
def test_conv(rng: np.random.Generator, shape: tuple, filters: tuple, attributes: dict) -> None:
    spatial = len(shape) - 2
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal(filters, np.float32)
    b = rng.standard_normal(filters[0], np.float32)
    ones = {"strides": (1,) * spatial, "dilations": (1,) * spatial, "pads": (0,) * 2 * spatial, "group": 1}
    expected = ConvOp.reference(x, w, b, layout="channels_first", **(ones | attributes))
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    result = run([node], {"x": x}, {"w": w, "b": b}, len(shape))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_groups_of_a_conv_do_not_mix(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((1, 32, 8, 8), np.float32), rng.standard_normal((32, 4, 3, 3), np.float32)
    x[0, 9] = np.inf
    y = run([helper.make_node("Conv", ["x", "w"], ["y"], group=8)], {"x": x}, {"w": w}, 4)
    finite = np.isfinite(y).all(axis=(0, 2, 3))
    np.testing.assert_array_equal(finite, [not 8 <= channel < 12 for channel in range(32)])


# Depths that are not a multiple of the unrolling, partial row tiles, panels with a tail; prefetched results.
@given(st.integers(1, 70), st.integers(1, 150), st.integers(1, 90), st.sampled_from([1, 300]))
@settings(max_examples=12, deadline=None)
def test_matmul_with_residual(rows: int, columns: int, depth: int, factor: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows * factor, depth), np.float32), rng.standard_normal((depth, columns), np.float32)
    r = rng.standard_normal((rows * factor, columns), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["0"]), helper.make_node("Add", ["0", "r"], ["y"])]
    result = run(nodes, {"x": x, "r": r}, {"w": w}, 2)
    np.testing.assert_allclose(result, x @ w + r, rtol=1e-4, atol=1e-4)


@pytest.mark.sweep
@given(st.integers(1, 3), st.integers(1, 70), st.integers(1, 40), st.sampled_from([32, 33, 96, 1024]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_matmul_of_a_batch(batch: int, rows: int, depth: int, columns: int, is_transposed: bool) -> None:
    rng = np.random.default_rng(0)
    depth *= 1 if is_transposed else 16
    x, y = (
        rng.standard_normal((batch, rows, depth), np.float32),
        rng.standard_normal((batch, depth, columns), np.float32),
    )
    z = y.swapaxes(1, 2).copy() if is_transposed else y
    product = helper.make_node("MatMul", ["x", "t"], ["y"])
    nodes = [helper.make_node("Transpose" if is_transposed else "Identity", ["z"], ["t"]), product]
    if is_transposed:
        nodes[0].attribute.append(helper.make_attribute("perm", [0, 2, 1]))
    np.testing.assert_allclose(run(nodes, {"x": x, "z": z}, {}, 3), x @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.sweep
@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 20), st.integers(1, 70), st.integers(1, 3), st.integers(1, 2)
)
@settings(max_examples=12, deadline=None)
def test_conv_of_any_shape(height: int, width: int, channels: int, outputs: int, kernel: int, stride: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, channels, height + kernel - 1, width + kernel - 1), np.float32)
    w = rng.standard_normal((outputs, channels, kernel, kernel), np.float32)
    places = {"strides": (stride, stride), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    result = run([helper.make_node("Conv", ["x", "w"], ["y"], strides=(stride, stride))], {"x": x}, {"w": w}, 4)
    expected = ConvOp.reference(x, w, None, layout="channels_first", **places)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(41, 71, 40), (2, 7, 1), (16, 97, 9)])
def test_rows_read_ahead(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, rows: int, columns: int, depth: int
) -> None:
    monkeypatch.setattr(Target, "multiplies_by_lane", True)
    x, w = rng.standard_normal((rows, depth), np.float32), rng.standard_normal((depth, columns), np.float32)
    result = run([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w}, 2)
    np.testing.assert_allclose(result, x @ w, rtol=1e-5, atol=1e-4)


def test_matmul_of_integers(rng: np.random.Generator) -> None:
    x, w = rng.integers(-9, 9, (5, 16)).astype(np.float32), rng.integers(-9, 9, (16, 40)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["0"], to=TensorProto.INT32),
        helper.make_node("Cast", ["w"], ["1"], to=TensorProto.INT32),
        helper.make_node("MatMul", ["0", "1"], ["2"]),
        helper.make_node("Cast", ["2"], ["y"], to=TensorProto.FLOAT),
    ]
    np.testing.assert_array_equal(run(nodes, {"x": x}, {"w": w}, 2), x @ w)


@pytest.mark.parametrize("constant", [np.zeros((4, 5), np.float32), np.arange(20, dtype=np.float32).reshape(4, 5)])
def test_matmul_with_a_literal(rng: np.random.Generator, constant: np.ndarray) -> None:
    x, b = rng.standard_normal((5, 6), np.float32), rng.standard_normal((4, 6), np.float32)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(constant)),
        helper.make_node("MatMul", ["c", "x"], ["0"]),
        helper.make_node("Add", ["0", "b"], ["y"]),
    ]
    np.testing.assert_allclose(run(nodes, {"x": x, "b": b}, {}, 2), constant @ x + b, rtol=1e-5, atol=1e-5)


def test_conv_transpose_of_two_activations(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((1, 2, 3, 3), np.float32), rng.standard_normal((2, 3, 3, 3), np.float32)
    expected = np.zeros((1, 3, 5, 5), np.float32)
    for row, column in np.ndindex(3, 3):
        expected[0, :, row : row + 3, column : column + 3] += np.einsum("c,cohw->ohw", x[0, :, row, column], w)
    result = run([helper.make_node("ConvTranspose", ["x", "w"], ["y"])], {"x": x, "w": w}, {}, 4)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_conv_of_two_activations(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((1, 8, 17, 18), np.float32), rng.standard_normal((5, 8, 3, 3), np.float32)
    expected = ConvOp.reference(
        x, w, None, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1, layout="channels_first"
    )
    result = run([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": x, "w": w}, {}, 4)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_few_of_many_rows(rng: np.random.Generator) -> None:
    """Tiles of few rows have several panels, with a rest that no tile of several panels covers."""
    w = rng.standard_normal((64, 232), np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy")
    x.type.tensor_type.shape.dim[1].dim_value = 64
    nodes = [helper.make_node("MatMul", ["x", "w"], ["0"]), helper.make_node("Relu", ["0"], ["y"])]
    graph = helper.make_graph(nodes, "few", [x], [y], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    compiled = stepwell.compile(model, threads=1, options=Options(cache=False, dims={"rows": (1, 6)}))
    (program,) = compiled.programs
    schedules = [program.compile_facts.details_of(kernel.name).schedule for kernel in program.kernels]
    assert any("panels" in schedule for schedule in schedules)
    for rows in (1, 2, 3, 6):
        rhs = rng.standard_normal((rows, 64), np.float32)
        np.testing.assert_allclose(compiled(rhs), np.maximum(rhs @ w, 0), rtol=1e-5, atol=1e-5)
