"""Reshapes, slices, gathers, padding and other data movement, compared with ONNX Runtime."""

import numpy as np
import pytest

F32, I64 = np.float32, np.int64
CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
IMAGE = np.arange(96, dtype=F32).reshape(2, 8, 2, 3)


def ints(*values):
    """A list of integers in the type that ONNX requires."""
    return np.array(values, I64)


@pytest.mark.parametrize("target", [(6, 4), (-1,), (0, -1), (2, 0, 2, 2), (4, 1, 6)])
@pytest.mark.parametrize("opset", [7, 13, 21])
def test_reshape(check, target, opset):
    check("Reshape", opset, [CUBE], constants={1: ints(*target)})


def test_reshape_to_a_computed_shape(check):
    check("Reshape", 14, [CUBE, ints(4, 6)], dynamic=True)
    check("Reshape", 14, [np.zeros((0, 3), F32)], constants={1: ints(3, 0)}, allowzero=1)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_flatten(check, axis):
    check("Flatten", 9, [CUBE], axis=axis)


def test_flatten_from_the_end(check):
    check("Flatten", 13, [CUBE], axis=-1)


def test_transpose(check):
    check("Transpose", 7, [CUBE])
    check("Transpose", 13, [CUBE], perm=[1, 0, 2])


def test_squeeze(check):
    array = CUBE.reshape(2, 1, 3, 1, 4)
    check("Squeeze", 7, [array], axes=[1, 3])
    check("Squeeze", 11, [array], axes=[-2])
    check("Squeeze", 11, [array])
    check("Squeeze", 13, [array], constants={1: ints(1)})
    check("Squeeze", 13, [array])


def test_unsqueeze(check):
    check("Unsqueeze", 7, [CUBE], axes=[0, 4])
    check("Unsqueeze", 11, [CUBE], axes=[-1])
    check("Unsqueeze", 13, [CUBE], constants={1: ints(2, 0)})


@pytest.mark.parametrize("count", [1, 2, 4])
def test_concat(check, count):
    check("Concat", 7, [CUBE] * count, axis=1)
    check("Concat", 13, [CUBE] * count, axis=-1)


def test_concat_of_very_many(check):
    """A chain of concatenations took quadratic time: minutes from some hundred inputs on."""
    check("Concat", 13, [CUBE] * 700, axis=1)


def test_tile(check):
    check("Tile", 7, [CUBE], constants={1: ints(2, 1, 3)})


def test_expand(check):
    check("Expand", 8, [np.ones((3, 1), F32)], constants={1: ints(2, 1, 4)})
    check("Expand", 13, [np.ones((3, 1), F32), ints(2, 1, 4)])


@pytest.mark.parametrize(("axis", "indices"), [(0, [1, 0, 1]), (1, [[0, -1], [2, 1]]), (-1, 3)])
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_gather(check, axis, indices, opset):
    if opset == 7:
        indices = np.abs(indices)
    check("Gather", opset, [CUBE], constants={1: np.array(indices, I64)}, axis=axis)
    check("Gather", opset, [CUBE, np.array(indices, np.int32)], axis=axis)


def test_slice_by_attributes(check):
    check("Slice", 7, [CUBE], starts=[0, 1], ends=[1, 1000], axes=[0, 2])
    check("Slice", 9, [CUBE], starts=[-2], ends=[-1], axes=[1])
    check("Slice", 9, [CUBE], starts=[1, 1], ends=[2, 3])


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ((0, 1), (1, 2**63 - 1), (0, 2), (1, 2)),
        ((-1,), (-(2**63),), (2,), (-1,)),
        ((3,), (0,), (-1,), (-2,)),
        ((1,), (100,), (1,), None),
        ((1, 0), (2, 2), None, None),
    ],
)
def test_slice_by_inputs(check, opset, starts, ends, axes, steps):
    given = {index + 1: ints(*values) for index, values in enumerate((starts, ends, axes, steps)) if values is not None}
    check("Slice", opset, [CUBE], constants=given)


def test_slice_with_computed_bounds(check):
    check("Slice", 13, [CUBE, ints(1), ints(3)], constants={3: ints(2)})


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_split(check, opset):
    check("Split", opset, [CUBE], outputs=2, axis=2)
    sizes = {"split": [1, 3]} if opset < 13 else {}
    check("Split", opset, [CUBE], outputs=2, axis=2, constants={} if sizes else {1: ints(1, 3)}, **sizes)


def test_split_into_uneven_parts(check):
    check("Split", 18, [CUBE], outputs=2, axis=1, num_outputs=2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(check, mode):
    check("Pad", 7, [CUBE], pads=[0, 1, 2, 1, 0, 3], mode=mode)
    check("Pad", 11, [CUBE], constants={1: ints(0, 1, 2, 1, 0, 3)}, mode=mode)
    check("Pad", 13, [CUBE, ints(0, 1, 2, 1, 0, 3)], mode=mode)
    check("Pad", 18, [CUBE], constants={1: ints(1, 2), 3: ints(-1)}, mode=mode)


def test_pad_value(check):
    check("Pad", 7, [CUBE], pads=[0, 1, 2, 1, 0, 3], value=2.5)
    check("Pad", 13, [CUBE], constants={1: ints(0, 1, 2, 1, 0, 3), 2: np.array(2.5, F32)})


def test_negative_pads_cut_off(check):
    check("Pad", 7, [CUBE], pads=[0, -1, 2, 0, 0, -3])
    check("Pad", 13, [CUBE], constants={1: ints(0, -1, 0, 1, 0, -2)})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(check, mode):
    check("DepthToSpace", 11, [IMAGE], blocksize=2, mode=mode)


def test_space_to_depth(check):
    check("SpaceToDepth", 13, [np.arange(96, dtype=F32).reshape(2, 2, 4, 6)], blocksize=2)
    check("DepthToSpace", 7, [IMAGE], blocksize=2)


@pytest.mark.parametrize("attributes", [{}, {"start": 1}, {"start": -2, "end": -1}, {"end": 7}, {"start": 2, "end": 1}])
def test_shape(check, attributes):
    check("Shape", 15, [CUBE], **attributes)


def test_size_and_range(check):
    check("Size", 7, [CUBE])
    check("Range", 11, [], constants={0: np.array(2, I64), 1: np.array(9, I64), 2: np.array(3, I64)})
    check("Range", 11, [np.array(5, F32), np.array(1, F32), np.array(-1.5, F32)])


def test_constant_of_shape(check):
    check("ConstantOfShape", 9, [], constants={0: ints(2, 3)}, value=_tensor(np.array([7], np.int32)))
    check("ConstantOfShape", 9, [ints(2, 0)])


def _tensor(array):
    from onnx import numpy_helper

    return numpy_helper.from_array(array)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(check, axis):
    indices, values = np.array([[0, 2], [-1, 1]], I64), np.array([-1, 5], F32)
    check("OneHot", 11, [indices], constants={1: np.array(4, I64), 2: values}, axis=axis)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangle(check, upper, k):
    check("Trilu", 14, [CUBE], constants={1: np.array(k, I64)}, upper=upper)


def test_eye(check):
    check("EyeLike", 9, [CUBE[0]], k=1)
    check("EyeLike", 9, [CUBE[0]], dtype=7)


def test_dropout_is_the_identity(check):
    check("Dropout", 7, [CUBE])
    check("Dropout", 10, [CUBE], ratio=0.3)
    check("Dropout", 12, [CUBE], outputs=2)
    check("Dropout", 13, [CUBE], constants={1: np.array(0.3, F32), 2: np.array(False)})


def test_gather_nd(check):
    check("GatherND", 13, [CUBE, np.array([[0, 1], [-1, 2]], I64)])
    check("GatherND", 13, [CUBE, np.array([[[1], [0]]], I64)])
    check("GatherND", 12, [CUBE, np.array([1, 2, -3], I64)])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(check, axis):
    check("GatherElements", 13, [CUBE, np.array([[[0, -1], [1, 0]]], I64)], axis=axis)
