"""Winograd convolutions compiled to native code, against the definition of the convolution in float64."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.driver.options import Options
from stepwell.lowering.linalg_to_vector.schedules import winograd as schedules
from stepwell.passes.graph.convolutions import choose_winograd

# Rounding error of the transforms for up to 96 channels, relative to the largest result.
BOUND = 4e-6


@pytest.fixture(params=[2, 4])
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A tile size that all convolutions take, whether or not it is faster."""
    tile = request.param  # a local, as the function is part of cache keys and must not refer to all of pytest
    monkeypatch.setattr(choose_winograd, "_tile_of", lambda method: tile)
    return tile


def model_of(x: np.ndarray, w: np.ndarray, b: np.ndarray, pads: tuple[int, ...], dilation: int = 1) -> onnx.ModelProto:
    """relu(conv(x, w, b) + z)"""
    shape, rank = [x.shape[0], w.shape[0]], len(w.shape) - 2
    for dim, (before, taps) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
        shape.append(before + pads[dim] + pads[dim + rank] - dilation * (taps - 1))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["0"], pads=pads, dilations=[dilation] * rank),
        helper.make_node("Add", ["0", "z"], ["1"]),
        helper.make_node("Relu", ["1"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "one",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(
    batch: int,
    size: tuple[int, ...],
    channels: int,
    columns: int,
    pads: tuple[int, ...],
    kernel: tuple[int, ...] = (3, 3),
    dilation: int = 1,
) -> None:
    """Compiles and runs one convolution with an epilogue, on one thread and on two."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, channels, *size), np.float32)
    w, b = rng.standard_normal((columns, channels, *kernel), np.float32), rng.standard_normal(columns, np.float32)
    steps = {"strides": (1,) * len(kernel), "dilations": (dilation,) * len(kernel)}
    conv = {**steps, "group": 1, "layout": "channels_first"}
    exact = ConvOp.reference(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), pads=pads, **conv)
    z = rng.standard_normal(exact.shape, np.float32)
    model = model_of(x, w, b, pads, dilation)
    kernels = []
    options = Options(cache=False, reached=lambda phase, module, _: kernels.append(str(module)))
    run = stepwell.compile(model, threads=1, options=options)
    assert any('class = "winograd"' in text for text in kernels)
    result = run(x, z)
    want = np.maximum(exact + z, 0)
    assert np.abs(result - want).max() <= BOUND * np.abs(exact).max()
    np.testing.assert_array_equal(run(x, z), result)
    run.threads = 2
    np.testing.assert_array_equal(run(x, z), result)


@pytest.mark.few(6)
# Whole and partial tiles; images smaller than a tile; masked channels and columns; several column groups and
# strips; padding on some sides only, and more of it than a kernel reaches.
@pytest.mark.parametrize(
    ("batch", "size", "channels", "columns", "pads"),
    [
        (1, (8, 8), 16, 32, (1, 1, 1, 1)),
        (1, (7, 9), 5, 7, (1, 1, 1, 1)),
        (2, (13, 6), 20, 70, (0, 0, 0, 0)),
        (1, (3, 3), 1, 1, (0, 0, 0, 0)),
        (1, (1, 1), 3, 4, (2, 2, 2, 2)),
        (3, (5, 17), 33, 100, (0, 1, 2, 0)),
        (1, (56, 60), 64, 96, (1, 1, 1, 1)),
    ],
)
@pytest.mark.usefixtures("tile")
def test_conv_with_epilogue(batch: int, size: tuple, channels: int, columns: int, pads: tuple) -> None:
    check(batch, size, channels, columns, pads)


@pytest.mark.few(4)
# Planes with several taps in one direction only; sequences, whose rows are as long as the dilation and may have a rest;
# padding that is no whole row; kernels of five taps.
@pytest.mark.parametrize(
    ("batch", "size", "kernel", "dilation", "pads"),
    [
        (1, (9, 13), (1, 3), 1, (0, 1, 0, 1)),
        (2, (9, 13), (3, 1), 1, (1, 0, 0, 0)),
        (1, (11, 10), (5, 5), 1, (2, 2, 2, 2)),
        (2, (50,), (3,), 1, (1, 1)),
        (2, (48,), (3,), 4, (8, 0)),
        (1, (53,), (3,), 4, (3, 5)),
        (1, (61,), (5,), 3, (6, 6)),
    ],
)
def test_sequences_and_other_kernels(
    batch: int, size: tuple, kernel: tuple, dilation: int, pads: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_winograd, "_tile_of", lambda method: 2 if 5 in kernel else 4)
    check(batch, size, 20, 33, pads, kernel, dilation)


@pytest.mark.few(2)
# Several images of a batch in a strip: all, a part of them that does not divide the batch, and a rest of a tile.
@pytest.mark.parametrize(("batch", "images", "size"), [(5, 5, (4, 4)), (3, 2, (7, 6)), (4, 3, (2, 9)), (4, 4, (2, 2))])
@pytest.mark.usefixtures("tile")
def test_images_share_a_strip(batch: int, images: int, size: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_images", lambda steps, target, strip: images)
    check(batch, size, 20, 33, (1, 1, 1, 1))


@pytest.mark.sweep
@pytest.mark.few(1)
@given(
    batch=st.integers(1, 2),
    size=st.tuples(st.integers(3, 24), st.integers(3, 24)),
    channels=st.integers(1, 40),
    columns=st.integers(1, 70),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
)
@settings(max_examples=8)
@pytest.mark.slow
@pytest.mark.parametrize("tile_size", [2, 4])
def test_any_shape(tile_size: int, batch: int, size: tuple, channels: int, columns: int, pads: tuple) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_winograd, "_tile_of", lambda method: tile_size)
        check(batch, size, channels, columns, pads)


@pytest.mark.few(2)
# Sizes of no tile more than a strip has, of strips that end in the middle of a row, and of several images.
@pytest.mark.parametrize(("batch", "limits"), [(1, (37, 41)), (3, (18, 21))])
@pytest.mark.usefixtures("tile")
def test_sizes_vary(batch: int, limits: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((33, 20, 3, 3), np.float32), rng.standard_normal(33, np.float32)
    shape = ["batch", 20, "height", "width"]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["0"], pads=[1] * 4), helper.make_node("Relu", ["0"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "one", [x], [y], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    dims = {"batch": (1, batch), "height": (1, limits[0]), "width": (1, limits[1])}
    executable = stepwell.compile(model, threads=2, options=Options(cache=False, dims=dims))
    assert {kernel.kind for kernel in executable.programs[0].kernels} >= {"winograd"}
    for height, width in ((1, 1), (4, 4), (5, 19), limits, (limits[0], 2), (3, limits[1]), (16, 16)):
        x = rng.standard_normal((1 + height % batch, 20, height, width), np.float32)
        exact = ConvOp.reference(
            *(value.astype(np.float64) for value in (x, w, b)),
            pads=(1,) * 4,
            strides=(1, 1),
            dilations=(1, 1),
            group=1,
            layout="channels_first",
        )
        np.testing.assert_allclose(executable(x), np.maximum(exact, 0), rtol=0, atol=BOUND * abs(exact).max())


@pytest.mark.usefixtures("tile")
def test_nan_and_infinity_reach_only_their_tiles() -> None:
    x, z = np.zeros((1, 4, 12, 12), np.float32), np.zeros((1, 8, 12, 12), np.float32)
    x[0, 0, 0, 0], x[0, 1, 11, 11] = np.nan, np.inf
    w, b = np.ones((8, 4, 3, 3), np.float32), np.zeros(8, np.float32)
    result = stepwell.compile(model_of(x, w, b, (1, 1, 1, 1)), options=Options(cache=False))(x, z)
    assert np.isnan(result[..., :2, :2]).all()
    assert not np.isfinite(result[..., 10:, 10:]).any()
    # Tiles without NaN or infinity are unchanged.
    np.testing.assert_array_equal(result[..., 4:8, 4:8], 0)


# In one strip, whose products are few enough for the stack, and in several.
@pytest.mark.parametrize(("size", "channels", "columns"), [(20, 96, 24), (40, 96, 24)])
@pytest.mark.parametrize("tile", [4], indirect=True)
@pytest.mark.usefixtures("tile")
def test_threads_can_share_it(size: int, channels: int, columns: int) -> None:
    shapes = ((1, channels, size, size), (columns, channels, 3, 3), (columns,))
    x, w, b = (np.ones(shape, np.float32) for shape in shapes)
    seen: list[str] = []
    options = Options(cache=False, reached=lambda phase, module, _: seen.append(str(module)))
    stepwell.compile(model_of(x, w, b, (1, 1, 1, 1)), threads=1, options=options)
    memref = next(text for text in seen if "stepwell.arena_bytes" in text)
    (kernel,) = [line for line in memref.splitlines() if "func.func" in line and 'class = "winograd"' in line]
    ends = re.search(r"stepwell.phases = array<i64: ([0-9, ]+)>", kernel)
    assert ends is not None
    phases = np.diff([0, *map(int, ends[1].split(", "))])
    assert min(phases) > 1


def test_the_option_disables_it() -> None:
    x, w, b = (np.ones(shape, np.float32) for shape in ((1, 64, 56, 56), (64, 64, 3, 3), (64,)))
    model = model_of(x, w, b, (1, 1, 1, 1))
    for winograd in (False, True):
        seen: list[str] = []
        options = Options(
            cache=False, winograd=winograd, reached=lambda phase, module, _, seen=seen: seen.append(str(module))
        )
        stepwell.compile(model, options=options)
        assert any("winograd_conv" in text for text in seen) == winograd


@pytest.mark.usefixtures("tile")
def test_the_convolved_input_may_be_a_constant() -> None:
    x, w, b = np.full((1, 4, 9, 9), 0.5, np.float32), np.ones((8, 4, 3, 3), np.float32), np.zeros(8, np.float32)
    model = model_of(x, w, b, (1, 1, 1, 1))
    model.graph.initializer.append(numpy_helper.from_array(x, "x"))
    del model.graph.input[0]
    z = np.zeros((1, 8, 9, 9), np.float32)
    result = stepwell.compile(model, threads=1, options=Options(cache=False))(z)
    assert abs(float(result[0, 0, 4, 4]) - 18) < 1e-4
    assert abs(float(result[0, 7, 0, 8]) - 8) < 1e-4
