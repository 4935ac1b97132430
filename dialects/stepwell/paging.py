"""Keys and values of several texts in one pool of rows, which texts find through tables of pages.

A pool has the rows of all texts, `[key heads, rows, depth]`. A slot is the number of a row, a page a number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ..dims import ceil_div
from ..types import TensorSpec
from .attention import UNBOUNDED, AttentionOp, check_heads, check_mask
from .panels import SHORT_FLOATS
from .shapes import require_float, require_length, require_rank, require_shape, same_dtype

MIDDLE = 7.5
"""Number of four bits without sign, 0 to 15, that stands for zero: there are as many above it as below."""

_IN_A_BYTE = {np.dtype(np.int8): 1, np.dtype(np.uint8): 2}
"""Number of elements in a byte of a pool with scales, by the type of the pool."""


class StoreRowsOp(Op):
    """The pool with the rows of new tokens in given slots; the other rows stay as they are.

    Slots are clipped to those of the pool. If two rows have the same slot, the later one is stored. If sizes vary, the
    table of extents holds how many texts and tokens are data; the other rows are not stored.

    ```mlir
    %3 = "stepwell.store_rows"(%0, %1, %2)
      : (tensor<2x512x8xf32>, tensor<4x2x1x8xf32>, tensor<4x1xi64>) -> tensor<2x512x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.store_rows"
    KERNEL = KernelTraits("movement")
    pool = operand("[heads, rows, depth]")
    rows = operand("the new rows, [texts, heads, tokens, depth]")
    slots = operand("their slots, [texts, tokens] i64")
    table = optional_operand("the table of extents, 1-D i64")
    ends = attribute(
        tuple, (), doc="indices in the table of the number of texts and of tokens, -1 for all of them; none without it"
    )
    layout = attribute(
        tuple,
        (),
        doc="if the pool is an input that may share memory with the result: the index in the table of a number that is "
        "0 if it does, so that nothing is copied",
    )
    result = result()

    @staticmethod
    def infer(
        pool: TensorSpec,
        rows: TensorSpec,
        slots: TensorSpec,
        table: TensorSpec | None = None,
        *,
        ends: tuple[int, ...] = (),
        layout: tuple[int, ...] = (),
    ) -> TensorSpec:
        """The shape of the pool."""
        require_rank(3, pool=pool)
        require_rank(4, rows=rows)
        same_dtype(pool, rows)
        texts, _, tokens, _ = rows.shape
        require_shape((texts, pool.shape[0], tokens, pool.shape[2]), rows=rows)
        _check_integers(slots=slots)
        require_shape((texts, tokens), slots=slots)
        if table is not None:
            require_rank(1, table=table)
            require_length(2, ends=ends)
        if len(layout) not in ((0, 1) if table is not None else (0,)):
            raise OpError(f"attribute 'layout' must have one entry of the table, or none, but has {len(layout)}")
        return pool.with_shape(pool.shape)

    @staticmethod
    def reference(
        pool: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        table: np.ndarray | None = None,
        *,
        ends: tuple[int, ...] = (),
        layout: tuple[int, ...] = (),
    ) -> np.ndarray:
        """Computes it with numpy."""
        if table is not None:
            texts, tokens = (table[end] if end >= 0 else size for end, size in zip(ends, slots.shape, strict=True))
            rows, slots = rows[:texts, :, :tokens], slots[:texts, :tokens]
        found = pool.copy()
        for text, token in np.ndindex(*slots.shape):
            found[:, np.clip(slots[text, token], 0, pool.shape[1] - 1)] = rows[text, :, token]
        return found


class PagedAttentionOp(Op):
    """Attention whose keys and values are in pages of pools.

    A page is a number of consecutive rows. Text `b` has keys at the positions from `starts[b]` on; the first of them
    are in the page `pages[b, 0]` of the pools, the next ones in `pages[b, 1]`, and so on. The result is
    `softmax(query @ transpose(key) * scale + mask) @ value`, per text and head, over the positions of the mask from
    `starts[b]` on; a bool mask is true for the keys that a query attends to. Numbers of pages are clipped to those of
    the pool. (Kwon et al., "PagedAttention", SOSP 2023.)

    Queries of f32 may have pools of shorter floats. Pools of bytes have pools of scales: a key or value is its row
    times the scale of the row. A byte of a pool of i8 is an element. A byte of a pool of ui8 holds two numbers of four
    bits, the lower ones in the first half of a row; a number `u` is the element `u - 7.5`.

    Attributes:
        page_size: number of rows of a page.
        scale: factor of the scores.
        zero_empty: whether a query whose scores are all -inf, which attends to nothing, gets 0 instead of NaN.
        cap: limit of the scaled scores before the mask, which become `cap * tanh(score / cap)`; 0 for no limit.

    ```mlir
    %6 = "stepwell.paged_attention"(%0, %1, %2, %3, %4, %5)
        {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 16 : i64, scale = 0.125 : f64}
        : (tensor<4x8x1x64xf32>, tensor<2x512x64xf32>, tensor<2x512x64xf32>, tensor<4x8xi64>, tensor<4xi64>,
           tensor<4x1x1x128xi1>) -> tensor<4x8x1x64xf32>
    ```
    """

    OPERATION_NAME = "stepwell.paged_attention"
    KERNEL = KernelTraits("attention")
    ROUNDING = Rounding.SUM
    query = operand("[texts, heads, length, depth]")
    key = operand("the pool of keys, [key heads, rows, depth], or half the depth of ui8")
    value = operand("the pool of values, [key heads, rows, value depth], or half the depth of ui8")
    pages = operand("[texts, pages of a text] i64")
    starts = operand("[texts] i64, from 0 on")
    mask = operand("bool or float, [texts or 1, heads or 1, length or 1, key length]")
    key_scales = optional_operand("the scales of keys in bytes, [key heads, rows, 1] f32")
    value_scales = optional_operand("the scales of values in bytes, [key heads, rows, 1] f32")
    page_size = attribute(int)
    scale = attribute(float)
    zero_empty = attribute(bool, default=False)
    cap = attribute(float, default=0.0)
    result = result("[texts, heads, length, value depth]")

    @staticmethod
    def infer(
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        pages: TensorSpec,
        starts: TensorSpec,
        mask: TensorSpec,
        key_scales: TensorSpec | None = None,
        value_scales: TensorSpec | None = None,
        *,
        page_size: int,
        scale: float,
        zero_empty: bool = False,
        cap: float = 0.0,
    ) -> TensorSpec:
        """[texts, heads, length, value depth]."""
        require_float(query=query)
        _check_pools(query, {"key": key, "value": value}, (key_scales, value_scales))
        require_rank(4, query=query, mask=mask)
        require_rank(2, pages=pages)
        texts, heads, length, depth = query.shape
        key_heads, rows, _ = key.shape
        require_shape((key_heads, rows, ceil_div(depth, elements_in_a_byte(key.dtype))), key=key)
        require_shape((key_heads, rows, value.shape[2]), value=value)
        _check_integers(pages=pages, starts=starts)
        require_shape((texts, pages.shape[1]), pages=pages)
        require_shape((texts,), starts=starts)
        if page_size < 1 or (isinstance(rows, int) and (rows < 1 or rows % page_size)):
            raise OpError(f"attribute 'page_size' must divide the {rows} rows of the pools, but is {page_size}")
        check_heads(heads, key_heads, cap)
        check_mask(query, mask, (texts, heads, length, mask.shape[3]))
        return query.with_shape((texts, heads, length, value.shape[2] * elements_in_a_byte(value.dtype)))

    @staticmethod
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        pages: np.ndarray,
        starts: np.ndarray,
        mask: np.ndarray,
        key_scales: np.ndarray | None = None,
        value_scales: np.ndarray | None = None,
        *,
        page_size: int,
        scale: float,
        zero_empty: bool = False,
        cap: float = 0.0,
    ) -> np.ndarray:
        """Computes it with numpy."""
        if key_scales is not None and value_scales is not None:
            pools = (key, key_scales), (value, value_scales)
            key, value = (_elements(rows) * by for rows, by in pools)
        key, value = (rows.astype(query.dtype) for rows in (key, value))
        ahead = np.arange(mask.shape[3]) - starts[:, None]
        before, ahead = ahead < 0, np.clip(ahead, 0, pages.shape[1] * page_size - 1)
        found = np.clip(np.take_along_axis(pages, ahead // page_size, 1), 0, key.shape[1] // page_size - 1)
        keys, values = (pool[:, found * page_size + ahead % page_size].swapaxes(0, 1) for pool in (key, value))
        least = query.dtype.type(-np.inf)
        bias = np.where(mask, query.dtype.type(0), least) if mask.dtype == np.bool_ else mask
        bias = np.where(before[:, None, None], least, bias)
        options = {"scale": scale, "masked": -math.inf, "zero_empty": zero_empty, "cap": cap}
        return AttentionOp.reference(query, keys, values, bias, **options, before=UNBOUNDED, after=UNBOUNDED)

    def flops(self) -> int:
        """Two multiply-adds for each query, key and element: of the scores, and of the result."""
        query, made, mask = (ir.RankedTensorType(item.type).shape for item in (self.query, self.result, self.mask))
        return 2 * math.prod(query[:3]) * mask[3] * (query[3] + made[3])

    @classmethod
    def is_linear(cls) -> bool:
        """False: for large scores, the softmax selects the greatest one."""
        return False


def elements_in_a_byte(dtype: np.dtype) -> int:
    """Returns the number of elements that an entry of a pool holds: two if the pool is ui8, else one."""
    return _IN_A_BYTE.get(dtype, 1)


def _elements(rows: np.ndarray) -> np.ndarray:
    """Returns rows of a pool with scales as elements, before these scale them."""
    if elements_in_a_byte(rows.dtype) == 1:
        return rows
    return np.concatenate([rows & 15, rows >> 4], axis=-1) - np.float32(MIDDLE)


def _check_pools(query: TensorSpec, pools: Mapping[str, TensorSpec], scales: Sequence[TensorSpec | None]) -> None:
    """Checks that pools of keys and values have the query's type or shorter floats, or are bytes and have scales."""
    require_rank(3, **pools)
    given = [item for item in scales if item is not None]
    if not given:
        for name, pool in pools.items():
            if pool.dtype != query.dtype and (query.dtype != np.float32 or pool.dtype not in SHORT_FLOATS):
                raise OpError(
                    f"operand '{name}' must have the elements of the query, or shorter floats if these are f32, but is "
                    f"{pool}"
                )
        return
    if len(given) != len(pools):
        raise OpError("operands 'key_scales' and 'value_scales' must be given together")
    for (name, pool), by in zip(pools.items(), given, strict=True):
        if pool.dtype not in _IN_A_BYTE:
            raise OpError(f"operand '{name}' must be i8 or ui8, as its rows have scales, but is {pool}")
        if by.dtype != np.float32:
            raise OpError(f"operand '{name}_scales' must be f32, but is {by}")
        require_shape((*pool.shape[:2], 1), **{f"{name}_scales": by})


def _check_integers(**operands: TensorSpec) -> None:
    for name, spec in operands.items():
        if spec.dtype != np.int64:
            raise OpError(f"operand '{name}' must be i64, but is {spec}")
