"""Slices, windows and reshapes of any extents, compared with ONNX Runtime."""

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

PROPERTY = settings(
    max_examples=settings.default.max_examples // 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
EXTENTS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def filled(shape, kind=np.float32):
    """Returns 0, 1, 2, ... in a shape."""
    return np.arange(np.prod(shape)).reshape(shape).astype(kind)


@PROPERTY
@given(shape=EXTENTS, data=st.data())
def test_slice(check, shape, data):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    bounds = st.lists(st.integers(-8, 8), min_size=len(axes), max_size=len(axes))
    starts, ends = data.draw(bounds), data.draw(bounds)
    steps = data.draw(st.lists(st.sampled_from([-3, -1, 1, 2]), min_size=len(axes), max_size=len(axes)))
    given = {index + 1: np.array(values) for index, values in enumerate((starts, ends, axes, steps))}
    check("Slice", 13, [filled(shape)], constants=given)


@PROPERTY
@given(shape=EXTENTS, data=st.data())
def test_reshape_and_transpose(check, shape, data):
    target = data.draw(st.permutations(shape))
    wildcard = data.draw(st.integers(0, len(shape)))
    target = [-1 if index == wildcard else dim for index, dim in enumerate(target)]
    check("Reshape", 14, [filled(shape)], constants={1: np.array(target)})
    check("Transpose", 13, [filled(shape)], perm=data.draw(st.permutations(range(len(shape)))))


@PROPERTY
@given(data=st.data())
def test_windows(check, data):
    draw = data.draw
    rank = draw(st.integers(1, 2))
    several = lambda low, high: draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))  # noqa: E731
    spatial, kernel, strides, dilations = several(3, 9), several(1, 3), several(1, 3), several(1, 2)
    extents = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    padded = [size + low + high for size, low, high in zip(spatial, pads[:rank], pads[rank:], strict=True)]
    assume(all(size >= extent for size, extent in zip(padded, extents, strict=True)))
    image, weight = filled([1, 2, *spatial]) / 7, filled([4, 1, *kernel]) / 5
    window = {"strides": strides, "pads": pads, "dilations": dilations}
    check("Conv", 11, [image], constants={1: weight}, group=2, rtol=1e-4, **window)
    check("MaxPool", 12, [image], kernel_shape=kernel, **window)
    check("AveragePool", 19, [image], kernel_shape=kernel, count_include_pad=draw(st.integers(0, 1)), **window)


@PROPERTY
@given(lhs=EXTENTS, rhs=EXTENTS, data=st.data())
def test_broadcast(check, lhs, rhs, data):
    common = max(lhs, rhs, key=len)
    shapes = []
    for rank in (len(lhs), len(rhs)):
        kept = common[len(common) - rank :]
        shapes.append([1 if data.draw(st.booleans()) else dim for dim in kept])
    check("Add", 14, [filled(shape) for shape in shapes])
    check("Where", 9, [filled(shapes[0]) % 2 == 0, filled(shapes[0]), filled(shapes[1])])
