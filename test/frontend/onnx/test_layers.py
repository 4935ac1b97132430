"""Matrix products, convolutions, pooling and normalisations, compared with ONNX Runtime."""

import numpy as np
import pytest

F32, I64 = np.float32, np.int64


@pytest.fixture
def normal(rng):
    """Returns a function that draws normally distributed arrays of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(F32)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))],
)
def test_matmul(check, normal, lhs, rhs):
    check("MatMul", 9, [normal(*lhs), normal(*rhs)])


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm(check, normal, opset, trans_a, trans_b):
    a, b = normal(*((4, 3) if trans_a else (3, 4))), normal(*((5, 4) if trans_b else (4, 5)))
    check("Gemm", opset, [a, b, normal(5)], transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0)
    check("Gemm", opset, [a, b, normal(3, 1)], transA=trans_a, transB=trans_b)
    if opset >= 11:
        check("Gemm", opset, [a, b], transA=trans_a, transB=trans_b)


def test_fused_matmul(check, normal):
    check("FusedMatMul", 17, [normal(2, 3, 4), normal(2, 5, 4)], domain="com.microsoft", transB=1, alpha=0.125)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"strides": [2, 1], "pads": [0, 1, 2, 0]},
        {"dilations": [2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "kernel_shape": [3, 2]},
    ],
)
def test_conv(check, normal, attributes):
    check("Conv", 11, [normal(2, 3, 9, 8)], constants={1: normal(4, 3, 3, 2), 2: normal(4)}, **attributes)


def test_conv_of_other_ranks(check, normal):
    check("Conv", 7, [normal(1, 4, 9)], constants={1: normal(6, 2, 3)}, group=2)
    check("Conv", 22, [normal(1, 2, 5, 6, 4)], constants={1: normal(3, 2, 2, 2, 2)})
    check("Conv", 11, [normal(1, 4, 6, 6), normal(4, 1, 3, 3)], group=4, dynamic=False)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "pads": [1, 0, 0, 1]},
        {"strides": [2, 3], "output_padding": [1, 2]},
        {"strides": [2, 2], "output_shape": [10, 9]},
        {"strides": [3, 2], "output_shape": [16, 10]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ],
)
def test_conv_transpose(check, normal, attributes):
    check("ConvTranspose", 11, [normal(1, 4, 5, 4)], constants={1: normal(4, 3, 3, 3), 2: normal(3)}, **attributes)


@pytest.mark.parametrize(
    ("size", "kernel", "attributes"),
    [
        ((4, 5), (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((4, 3), (5, 2), {"strides": [2, 3], "pads": [2, 0, 1, 2], "output_padding": [1, 2], "group": 2}),
        ((3, 3), (2, 6), {"strides": [4, 4], "pads": [0, 5, 1, 0], "group": 2}),
        ((7,), (5,), {"strides": [3], "pads": [4, 1]}),
        ((1, 6), (3, 4), {"strides": [3, 2], "dilations": [1, 2], "pads": [2, 0, 0, 0], "output_padding": [2, 1]}),
        ((2, 3, 2), (3, 2, 4), {"strides": [2, 2, 2], "pads": [0, 1, 1, 1, 0, 1]}),
    ],
)
def test_conv_transpose_by_phases(check, normal, size, kernel, attributes):
    weight = normal(4, 6 // attributes.get("group", 1), *kernel)
    check("ConvTranspose", 11, [normal(2, 4, *size)], constants={1: weight, 2: normal(6)}, **attributes)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2]}, {"strides": [2, 1], "pads": [1, 0, 0, 1]}])
def test_pool(check, normal, op_type, attributes):
    check(op_type, 7, [normal(1, 2, 7, 6)], kernel_shape=[3, 2], **attributes)
    check(op_type, 11, [normal(1, 2, 7, 6)], kernel_shape=[2, 2], auto_pad="SAME_UPPER", **{"strides": [2, 2]})
    check(op_type, 22, [normal(1, 2, 8, 6)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)


@pytest.mark.needs_onnxruntime("1.24")
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_kernels_larger_than_the_image(check, normal, op_type):
    x = normal(1, 2, 6, 6)
    check(op_type, 22, [x], kernel_shape=[8, 8], strides=[8, 8], ceil_mode=1)
    check(op_type, 22, [x], kernel_shape=[8, 3], strides=[8, 2], ceil_mode=1, auto_pad="VALID")
    check(op_type, 22, [x], kernel_shape=[1280, 1280], strides=[1280, 1280], ceil_mode=1)
    check(op_type, 22, [normal(1, 2, 5)], kernel_shape=[4], strides=[5], dilations=[2], pads=[1, 0], ceil_mode=1)
    check(op_type, 22, [normal(1, 2, 3, 4, 5)], kernel_shape=[4, 9, 3], strides=[4, 6, 2], ceil_mode=1)


def test_pool_options(check, normal):
    check("MaxPool", 12, [normal(1, 2, 9)], kernel_shape=[3], dilations=[2])
    check("AveragePool", 7, [normal(1, 2, 6, 6)], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    check("AveragePool", 19, [normal(1, 2, 9)], kernel_shape=[3], dilations=[2])
    check("GlobalAveragePool", 7, [normal(2, 3, 4, 5)])
    check("GlobalMaxPool", 7, [normal(2, 3, 4)])


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax(check, normal, op_type):
    for axis in (0, 1, 2):
        check(op_type, 7, [normal(2, 3, 4)], axis=axis)
        check(op_type, 13, [normal(2, 3, 4)], axis=axis)
    check(op_type, 11, [normal(2, 3, 4)], axis=-1)
    check(op_type, 9, [normal(2, 5, 1, 1)])
    check(op_type, 13, [normal(2, 3, 4)])


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_norm(check, normal, opset):
    statistics = [normal(3), normal(3), normal(3), np.abs(normal(3))]
    check("BatchNormalization", opset, [normal(2, 3, 4, 4)], constants=dict(enumerate(statistics, 1)), epsilon=1e-3)


def test_layer_norms(check, normal):
    check("LayerNormalization", 17, [normal(2, 3, 4), normal(4), normal(4)])
    check("LayerNormalization", 17, [normal(2, 3, 4), normal(3, 4)], axis=1, epsilon=1e-3)
    check(
        "SkipLayerNormalization", 17, [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8)], domain="com.microsoft"
    )
    check("RMSNormalization", 23, [normal(2, 3, 4), normal(4)])


@pytest.mark.needs_onnxruntime("1.24")
def test_other_norms(check, normal):
    check("InstanceNormalization", 7, [normal(2, 3, 4, 5), normal(3), normal(3)])
    check("GroupNormalization", 21, [normal(2, 4, 3, 3), normal(4), normal(4)], num_groups=2, rtol=1e-4)
    check("GroupNormalization", 18, [normal(2, 4, 3, 3), normal(2), normal(2)], num_groups=2, rtol=1e-4)
    check("LRN", 7, [normal(2, 7, 3, 3)], size=5, alpha=0.01, beta=0.6, bias=1.5)
    check("LpNormalization", 22, [normal(2, 3, 4)], axis=1)
    check("LpNormalization", 22, [normal(2, 3, 4)], p=1)
    check("MeanVarianceNormalization", 9, [normal(2, 3, 4, 5)], rtol=1e-4)


@pytest.mark.needs_onnxruntime("1.24")
@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"])
def test_reduction(check, normal, op_type):
    name, array = f"Reduce{op_type}", normal(2, 3, 4)
    since = 13 if op_type == "Sum" else 18
    check(name, 11, [array], axes=[0, -1])
    check(name, 7, [array], keepdims=0)
    check(name, since, [array], constants={1: np.array([1], I64)}, keepdims=0)
    check(name, since, [array])
    check(name, since, [array], noop_with_empty_axes=1, constants={1: np.array([], I64)})
    check(name, since, [array], noop_with_empty_axes=1, constants={1: np.array([1], I64)})


def test_reduction_of_logarithm_and_integers(check, normal):
    check("ReduceLogSum", 18, [np.abs(normal(2, 3)) + 1], constants={1: np.array([1], I64)})
    check("ReduceSum", 13, [np.arange(6, dtype=I64).reshape(2, 3)])
    check("ReduceMax", 13, [np.arange(6, dtype=I64).reshape(2, 3)], axes=[1])
    for name, array in (("ReduceL2", np.arange(6, dtype=I64)), ("ReduceLogSumExp", np.arange(6, dtype=np.int32))):
        check(name, 18, [array.reshape(2, 3)], constants={1: np.array([1], I64)})


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_index_of_extreme(check, op_type):
    array = np.array([[3, 1, 3, 1], [0, 5, 5, 0]], F32)
    check(op_type, 7, [array], axis=1)
    check(op_type, 13, [array], axis=0, keepdims=0)
    check(op_type, 12, [array], axis=-1, select_last_index=1)
    check(op_type, 13, [array.astype(np.int32)], axis=1)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(check, normal, mode):
    array = normal(1, 2, 3, 4)
    check("Upsample", 7, [array], scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
    check("Upsample", 9, [array], constants={1: np.array([1, 1, 2, 3], F32)}, mode=mode)
    check("Resize", 10, [array], constants={1: np.array([1, 1, 2, 3], F32)}, mode=mode)


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_resize(check, normal, coordinates, mode, opset):
    array = normal(1, 2, 4, 5)
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    empty = np.array([], F32)
    check("Resize", opset, [array], constants={1: empty, 2: np.array([1, 1, 2, 1.5], F32)}, rtol=1e-4, **attributes)
    sizes = {1: empty, 2: empty, 3: np.array([1, 2, 7, 3], I64)}
    check("Resize", opset, [array], constants=sizes, rtol=1e-4, **attributes)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_resize_nearest(check, normal, nearest):
    scales = {2: np.array([1, 1, 0.6, 2], F32)}
    check("Resize", 13, [normal(1, 1, 5, 4)], constants=scales, nearest_mode=nearest)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_resize_axes_and_aspect_ratio(check, normal, policy):
    sizes = {3: np.array([7, 7], I64)}
    check("Resize", 18, [normal(1, 2, 4, 5)], constants=sizes, axes=[2, 3], keep_aspect_ratio_policy=policy)


def test_quantization(check, normal):
    scale, zero = np.array([0.1, 0.2, 0.3], F32), np.array([1, 0, 2], np.int8)
    check("QuantizeLinear", 13, [normal(2, 3, 4)], constants={1: scale, 2: zero}, axis=1)
    check("QuantizeLinear", 10, [normal(2, 3)], constants={1: np.array(0.02, F32), 2: np.array(128, np.uint8)})
    integers = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4)
    check("DequantizeLinear", 13, [integers], constants={1: scale, 2: zero}, axis=1)
    check("DequantizeLinear", 10, [integers], constants={1: np.array(0.5, F32)})


@pytest.mark.needs_onnxruntime("1.24")
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i->", [(3,), (3,)]),
        ("ijk->ki", [(2, 3, 4)]),
        ("abc,cd,de->aeb", [(2, 3, 4), (4, 5), (5, 6)]),
        ("abcd,bced->ae", [(2, 3, 4, 5), (3, 4, 2, 5)]),
        ("ab,ab->ab", [(2, 3), (2, 3)]),
    ],
)
def test_einsum(check, normal, equation, shapes):
    check("Einsum", 12, [normal(*shape) for shape in shapes], equation=equation)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sum(check, normal, exclusive, reverse):
    options = {"exclusive": exclusive, "reverse": reverse}
    check("CumSum", 11, [normal(2, 3, 4)], constants={1: np.array(1, I64)}, **options)
    check("CumSum", 14, [np.arange(6, dtype=I64).reshape(2, 3)], constants={1: np.array(-1, np.int32)}, **options)
