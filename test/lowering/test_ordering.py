"""Native sorting and scattering, compared with the references of the ops."""

import ml_dtypes
import numpy as np
import pytest
from stepwell.dialects.stepwell.movement import GatherOp, ScatterOp
from stepwell.dialects.stepwell.sorting import TopKOp

RNG = np.random.default_rng(0)


def numbers(kind, *shape):
    """A few different numbers, so that some are equal."""
    values = RNG.integers(0, 60, shape) - (0 if np.dtype(kind).kind in "ub" else 30)
    return (values % 2 if kind == np.bool_ else values).astype(kind)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("extent", "k"), [(1, 1), (70, 70), (70, 3), (300, 300), (700, 9)])
def test_top_k_of_every_length(check_op, extent, k, largest):
    x = numbers(np.float32, 3, extent) / 7
    x[0, ::5], x[1, ::3], x[1, 0], x[2, ::4] = np.nan, -0.0, np.inf, -np.inf
    check_op(TopKOp, x, k=k, largest=largest)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8, np.int64, np.uint64])
def test_top_k_of_every_type(check_op, kind):
    check_op(TopKOp, numbers(kind, 2, 300), k=40)
    check_op(TopKOp, numbers(kind, 2, 20), k=20, largest=False)


def test_top_k_tells_the_extremes_of_integers_apart(check_op):
    for kind in (np.int64, np.uint64, np.int32, np.uint32):
        info = np.iinfo(kind)
        check_op(TopKOp, np.array([info.max, info.min, 1, info.max - 1, 0, info.min], kind), k=6)


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.float32])
@pytest.mark.parametrize("extent", [301, 302])
def test_rows_whose_elements_share_digits(check_op, kind, extent):
    """Rows that differ in the low digits, in the high ones, in one between, or not at all."""
    numbers = RNG.integers(0, 9, extent)
    rows = [numbers, numbers << 26, numbers << 13, np.full(extent, 5), (numbers << 28) + numbers[::-1]]
    x = np.stack(rows).astype(kind)
    for largest in (False, True):
        check_op(TopKOp, x, k=extent, largest=largest)


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.float32])
@pytest.mark.parametrize(("extent", "k"), [(5, 1), (33, 8), (200, 32), (391, 9)])
def test_few_of_rows_in_any_order(check_op, kind, extent, k):
    """Rows that rise, fall, are constant and contain the extremes of the type."""
    x = np.stack([np.arange(extent), np.arange(extent)[::-1], np.full(extent, 7), RNG.integers(0, 9, extent)])
    x = (x % 120).astype(kind)
    info = np.iinfo(kind) if np.dtype(kind).kind in "iu" else np.finfo(kind)
    x[2], x[3, ::2] = info.min, info.max
    for largest in (False, True):
        check_op(TopKOp, x, k=k, largest=largest)


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int32, np.uint64, np.uint8])
@pytest.mark.parametrize(("extent", "k"), [(300, 74), (515, 33), (1000, 200), (4099, 1000)])
def test_some_of_long_rows(check_op, kind, extent, k):
    """Rows that are random, rise, fall, are constant and repeat, so that the least elements are in the same groups."""
    rows = [RNG.permutation(extent), np.arange(extent), np.arange(extent)[::-1], np.full(extent, 7)]
    x = np.stack([*rows, np.arange(extent) % 64, np.repeat(np.arange(-(-extent // 64)), 64)[:extent]]) % 30000
    info = np.iinfo(kind) if np.dtype(kind).kind in "iu" else np.finfo(kind)
    x = x.astype(kind)
    x[0, ::7], x[0, 1::7] = info.min, info.max
    for largest in (False, True):
        check_op(TopKOp, x, k=k, largest=largest)


@pytest.mark.few(2)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("extent", "k"), [(7, 7), (40, 3), (100, 60), (300, 300), (700, 5), (900, 50)])
def test_top_k_of_some_elements(check_op, extent, k, largest):
    for kind in (np.float32, np.int64):
        x = numbers(kind, 2, extent)
        if kind == np.float32:
            x[:, ::3] = np.nan
        for count in (-1, 0, 1, k, extent // 2, extent - 1, extent, extent + 3):
            check_op(TopKOp, x, np.array(count), k=k, largest=largest, extent=0)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("kind", "shape", "axis", "count"),
    [
        (np.float32, (3, 1100), 0, 4),
        (np.float32, (4, 5, 3), 1, 7),
        (np.float32, (10, 3), 0, 1),
        (np.float16, (6,), 0, 9),
        (np.uint8, (6, 4), 0, 9),
        (np.bool_, (3, 5), 1, 7),
    ],
)
def test_scatter(check_op, kind, shape, axis, count, reduction):
    updates = numbers(kind, *shape[:axis], count, *shape[axis + 1 :])
    indices = RNG.integers(-shape[axis], shape[axis], (*shape[:axis], count))
    check_op(ScatterOp, numbers(kind, *shape), indices, updates, axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("count", [-1, 0, 3, 9])
def test_scatter_of_some_updates(check_op, count, reduction):
    indices = RNG.integers(-6, 6, (2, 7))
    for shape in ((2, 6), (2, 6, 5)):
        updates = numbers(np.float32, 2, 7, *shape[2:])
        data, applied = numbers(np.float32, *shape), np.array(count)
        check_op(ScatterOp, data, indices, updates, applied, axis=1, reduction=reduction, extent=0)


def test_indices_outside_touch_nothing_else(check_op):
    indices = np.array([-9, 6, 2, -6, 1 << 40, -(1 << 62)])
    check_op(ScatterOp, numbers(np.float32, 6, 3), indices, numbers(np.float32, 6, 3), axis=0)
    check_op(ScatterOp, numbers(np.float32, 6), indices.astype(np.int32), numbers(np.float32, 6), axis=0)
    check_op(GatherOp, numbers(np.float32, 6, 3), indices, axis=0)
    check_op(GatherOp, numbers(np.float32, 3, 6), indices, axis=1)
