"""References of the movement ops against numpy and ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from stepwell.dialects import dims
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell import movement
from stepwell.dialects.types import TensorSpec

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@given(shape=array_shapes(min_dims=1, max_dims=4, max_side=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_static_movement_is_that_of_numpy(compute, shape, data):
    x, rank = numbered(*shape), len(shape)
    axes = data.draw(st.sets(st.integers(0, rank - 1)).map(tuple))
    axis = data.draw(st.integers(-rank, rank - 1))
    permutation = tuple(data.draw(st.permutations(range(rank))))
    repeats = data.draw(st.tuples(*[st.integers(1, 3)] * rank))
    expand = data.draw(st.sets(st.integers(0, rank + 1), max_size=2).map(tuple))
    assume(all(place < rank + len(expand) for place in expand))
    indices = data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=4))
    for op, operands, attributes, expected in (
        (movement.ReshapeOp, (x,), {"shape": (x.size,)}, x.reshape(-1)),
        (movement.TransposeOp, (x,), {"permutation": permutation}, x.transpose(permutation)),
        (movement.ConcatOp, (x, x), {"axis": axis}, np.concatenate([x, x], axis)),
        (movement.ReverseOp, (x,), {"axes": axes}, np.flip(x, axes)),
        (movement.TileOp, (x,), {"repeats": repeats}, np.tile(x, repeats)),
        (movement.ExpandDimsOp, (x,), {"axes": expand}, np.expand_dims(x, expand)),
        (movement.SqueezeOp, (np.expand_dims(x, expand),), {"axes": expand}, x),
        (movement.BroadcastToOp, (x,), {"shape": (3, *shape)}, np.broadcast_to(x, (3, *shape))),
        (movement.GatherOp, (x, np.array([indices])), {"axis": axis}, np.take(x, [indices], axis)),
    ):
        np.testing.assert_array_equal(compute(op, *operands, **attributes)[0], expected)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_slice(compute, data):
    starts = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 4)))
    stops = tuple(data.draw(st.integers(start, extent)) for start, extent in zip(starts, (6, 5), strict=True))
    steps = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    x = numbered(6, 5)
    (result,) = compute(movement.SliceOp, x, starts=starts, stops=stops, steps=steps)
    np.testing.assert_array_equal(result, x[tuple(map(slice, starts, stops, steps))])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(run_onnx, compute, mode):
    x, low, high = numbered(2, 4, 5), (0, 2, 1), (0, 1, 3)
    pads, value = np.array([*low, *high]), np.array(7, np.float32)
    (expected,) = run_onnx("Pad", x, pads, value if mode == "constant" else None, mode=mode)
    np.testing.assert_array_equal(compute(movement.PadOp, x, low=low, high=high, mode=mode, value=7.0)[0], expected)
    dynamic = compute(movement.DynamicPadOp, x, pads, value if mode == "constant" else None, None, mode=mode)
    np.testing.assert_array_equal(dynamic[0], expected)


def test_dynamic_pad_of_some_axes(run_onnx, compute):
    x, pads, axes = numbered(2, 4, 5), np.array([1, 2, 3, 0]), np.array([-1, 1])
    (expected,) = run_onnx("Pad", x, pads, None, axes)
    np.testing.assert_array_equal(compute(movement.DynamicPadOp, x, pads, None, axes)[0], expected)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_dynamic_slice_is_that_of_onnx(run_onnx, compute, data):
    x = numbered(6, 5, 4)
    count = data.draw(st.integers(1, 3))
    bound = st.one_of(st.integers(-8, 8), st.sampled_from([2**31 - 1, 2**63 - 1, -(2**31), -(2**63)]))
    several = st.lists(bound, min_size=count, max_size=count)
    starts, ends = np.array(data.draw(several)), np.array(data.draw(several))
    axes = data.draw(st.one_of(st.none(), st.permutations(range(-3, 0)).map(lambda order: np.array(order[:count]))))
    step = st.sampled_from([1, 2, 3, -1, -2])
    steps = data.draw(st.one_of(st.none(), st.lists(step, min_size=count, max_size=count).map(np.array)))
    # ONNX Runtime takes the largest integer as "to the end", also backwards; the specification clamps it.
    assume(steps is None or not any((steps < 0) & (ends >= 2**31 - 1)))
    (expected,) = run_onnx("Slice", x, starts, ends, axes, steps)
    np.testing.assert_array_equal(compute(movement.DynamicSliceOp, x, starts, ends, axes, steps)[0], expected)


@pytest.mark.parametrize("shape", [(4, 6), (-1, 3), (0, -1), (2, 0, 2, 2), (24,), (0, 0, 0, 1)])
def test_dynamic_reshape_is_that_of_onnx(run_onnx, compute, shape):
    x = numbered(2, 3, 4)
    (expected,) = run_onnx("Reshape", x, np.array(shape))
    np.testing.assert_array_equal(compute(movement.DynamicReshapeOp, x, np.array(shape))[0], expected)


def test_dynamic_broadcast_is_that_of_onnx(run_onnx, compute):
    for x, shape in ((numbered(3, 1), (2, 1, 4)), (numbered(3, 4), (1, 1)), (numbered(4), (3, 1))):
        (expected,) = run_onnx("Expand", x, np.array(shape))
        np.testing.assert_array_equal(compute(movement.DynamicBroadcastToOp, x, np.array(shape))[0], expected)


def test_shapes_of_symbols_stay_precise():
    height, width = dims.symbol("h"), dims.symbol("w")
    x = TensorSpec((1, 8, height, width), F32)

    def constant(*values: int) -> TensorSpec:
        return TensorSpec((len(values),), I64, np.array(values))

    reshape = movement.DynamicReshapeOp.infer
    assert reshape(x, constant(0, 0, -1), allow_zero=False).shape == (1, 8, height * width)
    assert reshape(x, constant(-1, 4), allow_zero=False).shape == (height * width * 2, 4)
    assert reshape(x, constant(0, 8, 0, -1), allow_zero=False).shape == (1, 8, height, width)
    cut = movement.DynamicSliceOp.infer
    whole = cut(x, constant(0), constant(2**63 - 1), constant(2), constant(2)).shape
    assert whole == (1, 8, dims.ceil_div(height, 2), width)
    part = cut(x, constant(1), constant(2**63 - 1), constant(2), None).shape
    assert part[3] == width
    assert part[2] != height
    unknown = TensorSpec((2,), I64)
    assert reshape(x, unknown, allow_zero=False).rank == 2
    assert not reshape(x, unknown, allow_zero=False).is_static


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: movement.ReshapeOp.infer(x, shape=(5,)), "cannot reshape 2x3xf32 to 5: it has 6 elements, not 5"),
        (lambda x: movement.TransposeOp.infer(x, permutation=(0, 0)), "0, 0 is not a permutation of the 2 dimensions"),
        (
            lambda x: movement.ConcatOp.infer(x, x.with_shape((3, 3)), axis=1),
            "must have equal shapes except for axis 1",
        ),
        (
            lambda x: movement.SliceOp.infer(x, starts=(0, 0), stops=(2, 4), steps=(1, 1)),
            "cannot slice 0 to 4 of the 3 elements",
        ),
        (lambda x: movement.SliceOp.infer(x, starts=(0, 0), stops=(2, 3), steps=(1, -1)), "steps must be positive"),
        (
            lambda x: movement.PadOp.infer(x, low=(0, 0), high=(0,), mode="edge", value=0.0),
            "'high' must have 2 entries",
        ),
        (lambda x: movement.PadOp.infer(x, low=(0, 3), high=(0, 0), mode="reflect", value=0.0), "mode reflect cannot"),
        (lambda x: movement.BroadcastToOp.infer(x, shape=(2, 1)), "cannot broadcast 2x3xf32 to 2x1"),
        (lambda x: movement.GatherOp.infer(x, x, axis=0), "operand 'indices' must be integers"),
        (lambda x: movement.SqueezeOp.infer(x, axes=(1,)), "axis 1 of 2x3xf32 has extent 3 and cannot be squeezed"),
        (lambda x: movement.TileOp.infer(x, repeats=(1,)), "'repeats' must have 2 entries, but has 1"),
    ],
)
def test_wrong_attributes_are_refused(call, message):
    with pytest.raises(OpError, match=message):
        call(TensorSpec((2, 3), F32))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((-1, -1), "no negative extent except one -1"),
        ((-1, 5), "cannot reshape 6 elements to shape -1, 5"),
        ((2, 3, 0), "copies an extent that the input, of rank 2, does not have"),
    ],
)
def test_wrong_dynamic_shapes_are_refused(shape, message):
    operand = TensorSpec((len(shape),), I64, np.array(shape))
    with pytest.raises(OpError, match=message):
        movement.DynamicReshapeOp.infer(TensorSpec((2, 3), F32), operand, allow_zero=False)
