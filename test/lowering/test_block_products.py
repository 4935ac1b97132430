"""Products with weights of few bits in blocks: native code gives the results of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.blocks import BlockMatmulOp, PackedBlockMatmulOp
from stepwell.runtime import processor

RNG = np.random.default_rng(0)


@pytest.mark.few(11)
@pytest.mark.parametrize(
    ("bits", "block", "rows", "columns", "panel", "rounds_input", "has_zeros"),
    [
        (2, 32, 1, 24, 16, False, True),
        (2, 32, 5, 16, 16, True, False),
        (4, 16, 9, 21, 24, True, True),
        (4, 16, 1, 17, 24, False, False),
        (4, 32, 5, 35, 48, True, False),
        (4, 32, 1, 70, 64, True, False),
        (4, 64, 5, 1, 1, True, True),
        (4, 32, 2, 33, 16, True, False),
        (2, 64, 6, 34, 16, False, True),
        (4, 32, 2, 16, 16, False, False),
        (4, 32, 4, 40, 16, False, True),
        (4, 128, 5, 24, 16, True, False),
        (8, 32, 1, 16, 16, True, True),
        (8, 32, 6, 16, 16, True, False),
        (8, 32, 3, 16, 16, False, True),
        (4, 32, 17, 70, 32, True, False),
        (4, 64, 12, 32, 32, True, True),
        (4, 128, 37, 64, 64, True, False),
        (2, 32, 16, 48, 48, True, True),
        (8, 32, 33, 32, 32, True, False),
        (8, 256, 20, 32, 16, True, True),
    ],
)
def test_every_number_of_bits(
    check_op: Callable,
    bits: int,
    block: int,
    rows: int,
    columns: int,
    panel: int,
    rounds_input: bool,
    has_zeros: bool,
) -> None:
    blocks = 3
    weight = RNG.integers(0, 256, blocks * block * columns * bits // 8, np.uint8)
    scales = RNG.random(blocks * columns).astype(np.float32)
    zeros = RNG.integers(0, 1 << bits, blocks * columns, np.uint8) if has_zeros else None
    if rounds_input:
        values = RNG.integers(-127, 128, (rows, blocks * block), np.int8)
        factors = RNG.random((rows, blocks)).astype(np.float32)
    else:
        values, factors = RNG.standard_normal((rows, blocks * block)).astype(np.float32), None
    sums = values.reshape(rows, blocks, block).sum(axis=-1, dtype=np.float32)
    sums = sums if factors is None else sums * factors
    operands = (values, sums, weight, scales, zeros, factors)
    size = np.abs(values.astype(np.float64)).sum(axis=-1).max() * (1 << bits)
    check_op(PackedBlockMatmulOp, *operands, columns=columns, panel=panel, bits=bits, tolerance=1e-6 * float(size))


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_zeros_of_floats(check_op: Callable, rows: int, kind: type) -> None:
    values = RNG.integers(-127, 128, (rows, 64), np.int8)
    factors, zeros = RNG.random((rows, 2)).astype(np.float32), (15 * RNG.random(2 * 40)).astype(kind)
    weight, scales = RNG.integers(0, 256, 64 * 40 // 2, np.uint8), RNG.random(2 * 40).astype(np.float32)
    sums = values.reshape(rows, 2, 32).sum(axis=-1, dtype=np.float32) * factors
    operands = (values, sums, weight, scales, zeros, factors)
    check_op(PackedBlockMatmulOp, *operands, columns=40, panel=16, bits=4, tolerance=0.1)


def test_scales_of_16_bits(check_op: Callable) -> None:
    values = RNG.standard_normal((2, 64)).astype(np.float32)
    weight, scales = RNG.integers(0, 256, 64 * 24 // 2, np.uint8), RNG.random(2 * 24).astype(np.float16)
    sums = values.reshape(2, 2, 32).sum(axis=-1)
    check_op(
        PackedBlockMatmulOp, values, sums, weight, scales, None, None, columns=24, panel=24, bits=4, tolerance=1e-4
    )


@pytest.mark.parametrize(
    ("bits", "block", "rows", "columns", "panel", "kind"),
    [
        (4, 32, 1, 21, 24, None),
        (4, 32, 37, 80, 32, None),
        (2, 32, 33, 70, 32, np.uint8),
        (8, 16, 40, 32, 32, np.float32),
        (4, 128, 64, 100, 64, np.float16),
        (4, 64, 7, 5, 32, np.uint8),
    ],
)
def test_rows_of_bfloat16(check_op: Callable, bits: int, block: int, rows: int, columns: int, panel: int, kind) -> None:
    weight = RNG.integers(0, 256, 3 * block * columns * bits // 8, np.uint8)
    scales = RNG.random(3 * columns).astype(np.float32)
    zeros = None if kind is None else ((1 << bits) * RNG.random(3 * columns)).astype(kind)
    values = RNG.standard_normal((rows, 3 * block)).astype(ml_dtypes.bfloat16)
    given = {"columns": columns, "panel": panel, "bits": bits}
    # A few weights between two numbers of bfloat16 may be rounded to the other one.
    tolerance = 2.0**-8 * (1 << bits)
    check_op(PackedBlockMatmulOp, values, None, weight, scales, zeros, None, **given, tolerance=tolerance)


def _product(numbers: np.ndarray, scales: np.ndarray, rows: int | str, **options: Any) -> stepwell.Executable:
    """A product with numbers of 4 bits, [columns, blocks, block / 2], whose rows may be rounded to bytes."""
    columns, blocks, size = numbers.shape
    attributes = {"K": 2 * blocks * size, "N": columns, "bits": 4, "block_size": 2 * size, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    sizes = {"x": 2 * blocks * size, "y": columns}
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size]) for name, size in sizes.items()]
    weights = [numpy_helper.from_array(numbers, "w"), numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph([node], "product", kinds[:1], kinds[1:], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return stepwell.compile(model, threads=1, options=stepwell.Options(cache=False, **options))


def _random_weight(columns: int, depth: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = RNG.integers(0, 256, (columns, depth // block, block // 2), np.uint8)
    return numbers, RNG.standard_normal(numbers.size * 2 // block).astype(np.float32)


@pytest.mark.parametrize("rows", [8, 9, 21, 130])
@pytest.mark.parametrize(("block", "depth"), [(32, 64), (32, 640), (64, 256), (128, 512)])
def test_rows_together_are_those_alone(block: int, depth: int, rows: int) -> None:
    """Also if a matrix unit multiplies the rows that are together."""
    weight = _random_weight(80, depth, block)
    values = RNG.standard_normal((rows, depth)).astype(np.float32)
    alone = _product(*weight, 1)
    found = _product(*weight, rows, batch_invariant=True)(values)
    np.testing.assert_array_equal(found, np.concatenate([alone(row[None]) for row in values]))


@pytest.mark.parametrize("block", [32, 128])
def test_many_rows_are_at_least_as_near_as_rows_of_bytes(block: int) -> None:
    columns, rows, depth = 96, 256, 512
    numbers, scales = _random_weight(columns, depth, block)
    values = RNG.standard_normal((rows, depth)).astype(np.float32)
    exact = BlockMatmulOp.reference(
        values.astype(np.float64), numbers, scales.reshape(columns, -1), None, bits=4, rounds_input=False
    )
    near, rounded = (
        np.square(_product(numbers, scales, rows, batch_invariant=alike)(values) - exact).mean()
        for alike in (False, True)
    )
    assert near <= rounded < 1e-4 * np.square(exact).mean()
    if block == 32 and "amxbf16" in (processor.features() or ()):
        assert near < rounded / 4


def test_rows_of_a_range_are_rounded_alike() -> None:
    """Whatever their number, as a prompt may be read in chunks."""
    run = _product(*_random_weight(70, 128, 32), "rows", dims={"rows": (2, 300)})
    values = RNG.standard_normal((300, 128)).astype(np.float32)
    found = run(values)
    for count in (2, 5, 16, 33, 150):
        np.testing.assert_array_equal(run(values[:count]), found[:count])
