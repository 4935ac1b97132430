"""Products with weights in several orders."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.packed import PackedMatmulOp
from stepwell.dialects.stepwell.panels import BY_COLUMNS, BY_ROWS, PACKED, pack
from stepwell.dialects.types import TensorSpec


@pytest.mark.parametrize("batch", [1, 2])
def test_a_product_does_not_depend_on_the_order_of_its_weight(batch: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((batch, 5, 8)), rng.standard_normal((batch, 7, 8))
    orders = {PACKED: pack(w, 4), BY_COLUMNS: w.reshape(-1), BY_ROWS: w.swapaxes(1, 2).reshape(-1)}
    for stored, weight in orders.items():
        made = PackedMatmulOp.reference(x, weight, columns=7, panel=4, batch=batch, stored=stored)
        np.testing.assert_allclose(made, x @ w.swapaxes(1, 2))


def test_bytes_are_packed() -> None:
    x, w = (TensorSpec(shape, np.dtype(kind)) for shape, kind in (((4, 8), np.uint8), ((64,), np.int8)))
    with pytest.raises(OpError, match="a weight of int8 must be packed"):
        PackedMatmulOp.infer(x, w, columns=8, panel=8, batch=1, stored=BY_COLUMNS)
