"""Operators made by ONNX Runtime's optimiser, and low-bit weights, compared with ONNX Runtime."""

import numpy as np
import pytest

F32, U8 = np.float32, np.uint8
MS = {"domain": "com.microsoft"}


@pytest.fixture
def normal(rng):
    """Returns a function that draws normally distributed arrays of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(F32)


ACTIVATIONS = {
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
    "LeakyRelu": [0.2],
    "Clip": [-0.5, 0.75],
    "HardSigmoid": [0.3, 0.4],
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_convolution_with_a_sum_and_a_function(check, normal, activation):
    weights = {1: normal(4, 3, 3, 3), 2: normal(4)}
    options = {"activation": activation, "pads": [1, 1, 1, 1], **MS}
    if ACTIVATIONS[activation]:
        options["activation_params"] = ACTIVATIONS[activation]
    check("FusedConv", 17, [normal(2, 3, 6, 5)], constants=weights, **options)
    check("FusedConv", 17, [normal(2, 3, 6, 5), None, None, normal(2, 4, 6, 5)], constants=weights, **options)


def test_convolution_with_default_attributes(check, normal):
    check("FusedConv", 17, [normal(2, 3, 6, 5)], constants={1: normal(4, 3, 3, 3)}, activation="Relu", **MS)


@pytest.mark.parametrize(
    "function",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
        {"activation": "Elu", "activation_alpha": 0.5},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.6},
    ],
)
def test_product_with_a_function(check, normal, function):
    check("FusedGemm", 17, [normal(3, 4), normal(5, 4), normal(5)], transB=1, alpha=0.5, **function, **MS)


@pytest.mark.parametrize("options", [{}, {"transA": 1}, {"transB": 1, "alpha": 0.25}])
def test_transposed_product(check, normal, options):
    left = normal(2, 4, 3) if options.get("transA") else normal(2, 3, 4)
    right = normal(2, 5, 4) if options.get("transB") else normal(2, 4, 5)
    check("TransposeMatMul", 17, [left, right], **options, **MS)


def test_product_of_matrices_whose_rows_come_before_their_batches(check, normal):
    check("FusedMatMul", 17, [normal(3, 2, 6, 4), normal(2, 6, 4, 5)], transBatchA=1, **MS)
    check("FusedMatMul", 17, [normal(3, 2, 4), normal(4, 2, 5)], transBatchA=1, transBatchB=1, **MS)
    check("FusedMatMul", 17, [normal(2, 3, 4), normal(5, 2, 4)], transBatchB=1, transB=1, **MS)


def test_older_forms_of_standard_operators(check, normal, rng):
    check("Trilu", 17, [normal(3, 4), np.array(1)], upper=0, **MS)
    check("Range", 17, [np.array(1.0, F32), np.array(4.0, F32)], dynamic=False, **MS)
    check("GatherND", 17, [normal(3, 4, 2), np.array([[0, 1], [2, 3]])], **MS)
    check("Pad", 17, [normal(3, 4)], constants={1: np.array([1, 0, 0, 2])}, **MS)
    check("ExpandDims", 17, [normal(3, 4)], constants={1: np.array(-1, np.int32)}, **MS)
    check("GridSample", 17, [normal(1, 2, 4, 5), np.clip(normal(1, 3, 3, 2), -1, 1)], align_corners=1, **MS)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(check, normal, metric):
    check("CDist", 17, [normal(4, 3), normal(5, 3)], metric=metric, **MS)


@pytest.mark.parametrize(("bits", "block", "depth"), [(4, 16, 32), (4, 32, 40), (8, 16, 32)])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_product_with_weights_of_few_bits(check, normal, rng, bits, block, depth, zeros):
    if bits == 8 and zeros == "floats":
        return  # ONNX Runtime lacks this case
    columns, blocks = 6, -(-depth // block)
    constants = {1: rng.integers(0, 256, (columns, blocks, block * bits // 8), U8)}
    constants[2] = np.abs(normal(columns * blocks)) / 8
    if zeros == "packed":
        constants[3] = rng.integers(0, 256, columns * -(-blocks * bits // 8), U8)
    elif zeros == "floats":
        constants[3] = np.abs(normal(columns, blocks)) * 4
    options = {"bits": bits, "block_size": block, "N": columns, "K": depth, "dynamic": False, "rtol": 1e-4, **MS}
    check("MatMulNBits", 17, [normal(2, 3, depth)], constants=constants, **options)
    check("MatMulNBits", 17, [normal(2, 3, depth)], constants=constants | {5: normal(columns)}, **options)
    if bits == 4 and zeros != "packed":  # ONNX Runtime ignores these indices if rows have their own blocks
        groups = {4: rng.integers(0, blocks, blocks * block).astype(np.int32)}
        check("MatMulNBits", 17, [normal(2, 3, depth)], constants=constants | groups, **options)


@pytest.mark.parametrize("rows", [1, 5])
def test_product_whose_rows_are_rounded(check, normal, rng, rows):
    constants = {1: rng.integers(0, 256, (24, 2, 16), U8), 2: np.abs(normal(48)) / 8}
    options = {"bits": 4, "block_size": 32, "N": 24, "K": 64, "accuracy_level": 4, "dynamic": False, **MS}
    check("MatMulNBits", 17, [normal(rows, 64)], constants=constants, rtol=2e-3, **options)


@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table_in_blocks(check, normal, rng, zeros):
    constants = {0: rng.integers(0, 256, (7, 32), U8), 2: normal(7, 4)}
    if zeros:
        constants[3] = rng.integers(0, 256, (7, 2), U8)
    rows = np.array([[0, 6, 3], [1, 1, 5]])
    options = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "dynamic": False, **MS}
    check("GatherBlockQuantized", 17, [None, rows], constants=constants, **options)
