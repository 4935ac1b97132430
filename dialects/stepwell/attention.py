"""Attention, a composite op that is slow when decomposed."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ..dims import Dim
from ..types import TensorSpec
from .normalization import softmax
from .numerics import summed_up
from .shapes import (
    broadcasts_to,
    require_float,
    require_rank,
    require_shape,
    same_dtype,
    shape_text,
)

FEW_QUERIES = 4
"""Number of queries up to which kernels of CPUs compute them one by one instead of in the lanes of vectors."""

KEYS_AT_ONCE = 4
"""Maximum number of keys that a loop reads in one iteration; the number of keys is rounded up to a multiple of it.

A tile of scores may hold more keys. Their scores are computed from padding and are not read.
"""

UNBOUNDED = 2**31 - 1
"""Number of keys of a band without a limit, greater than any number of keys."""


class AttentionOp(Op):
    """`softmax(query @ transpose(key) * scale + mask) @ value`, per batch and head.

    A bool mask keeps the scores where it is true and replaces the others by `masked`; a float mask is added. Key and
    value may have fewer heads than the query: groups of consecutive query heads then share one (grouped-query
    attention). (ONNX Attention; Vaswani et al. 2017.)

    Attributes:
        scale: factor of the scores.
        masked: score of keys that a bool mask excludes.
        zero_empty: whether a query whose scores are all -inf, which attends to nothing, gets 0 instead of NaN.
        before: number of keys before its own position that a query attends to; the scores of others become -inf.
        after: number of keys after its own position that a query attends to; 0 for causal attention.
        cap: limit of the scaled scores before the mask, which become `cap * tanh(score / cap)`; 0 for no limit (Gemma
            2).

    ```mlir
    %3 = "stepwell.attention"(%0, %1, %2) {scale = 0.125 : f64}
        : (tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32>
    ```
    """

    OPERATION_NAME = "stepwell.attention"
    KERNEL = KernelTraits("attention")
    ROUNDING = Rounding.SUM
    query = operand("[batch, heads, length, depth]")
    key = operand("[batch, key heads, key length, depth]")
    value = operand("[batch, key heads, key length, value depth]")
    mask = optional_operand("bool or float, broadcasts to [batch, heads, length, key length]")
    scale = attribute(float)
    masked = attribute(float, default=-math.inf)
    zero_empty = attribute(bool, default=False)
    before = attribute(int, default=UNBOUNDED)
    after = attribute(int, default=UNBOUNDED)
    cap = attribute(float, default=0.0)
    result = result("[batch, heads, length, value depth]")

    @staticmethod
    def infer(
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        mask: TensorSpec | None,
        *,
        scale: float,
        masked: float,
        zero_empty: bool,
        before: int,
        after: int,
        cap: float = 0.0,
    ) -> TensorSpec:
        """[batch, heads, length, value depth]."""
        require_float(query=query)
        same_dtype(query, key, value)
        require_rank(4, query=query, key=key, value=value)
        batch, heads, length, depth = query.shape
        _, key_heads, key_length, _ = key.shape
        require_shape((batch, key_heads, key_length, depth), key=key)
        require_shape((batch, key_heads, key_length, value.shape[3]), value=value)
        check_heads(heads, key_heads, cap)
        if mask is not None:
            check_mask(query, mask, (batch, heads, length, key_length))
        return query.with_shape((batch, heads, length, value.shape[3]))

    @staticmethod
    @summed_up
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        mask: np.ndarray | None,
        *,
        scale: float,
        masked: float,
        zero_empty: bool,
        before: int,
        after: int,
        cap: float = 0.0,
    ) -> np.ndarray:
        """Computes it with numpy."""
        shared = query.shape[1] // key.shape[1]
        keys, values = np.repeat(key, shared, 1), np.repeat(value, shared, 1)
        scores = query @ keys.swapaxes(-1, -2) * query.dtype.type(scale)
        if cap:
            scores = np.tanh(scores / query.dtype.type(cap)) * query.dtype.type(cap)
        if mask is not None:
            scores = np.where(mask, scores, query.dtype.type(masked)) if mask.dtype == np.bool_ else scores + mask
        distance = np.arange(scores.shape[3]) - np.arange(scores.shape[2])[:, None]
        scores = np.where((distance <= after) & (-distance <= before), scores, query.dtype.type(-np.inf))
        weights = softmax(scores, -1)
        if zero_empty:
            weights = np.where(np.isneginf(scores.max(-1, keepdims=True)), query.dtype.type(0), weights)
        return (weights @ values).astype(query.dtype)

    def flops(self) -> int:
        """Two multiply-adds for each query, key and element: of the scores, and of the result."""
        query, key, value = (ir.RankedTensorType(item.type).shape for item in (self.query, self.key, self.value))
        return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])

    @classmethod
    def is_linear(cls) -> bool:
        """False: for large scores, the softmax selects the greatest one."""
        return False


def check_heads(heads: Dim, key_heads: Dim, cap: float) -> None:
    """Checks the heads of an attention, and the limit of its scores.

    Raises:
        OpError: query heads cannot share the key heads evenly, or the limit is negative.
    """
    if cap < 0:
        raise OpError(f"attribute 'cap' must be at least 0, but is {cap}")
    if isinstance(heads, int) and isinstance(key_heads, int) and (key_heads == 0 or heads % key_heads):
        raise OpError(f"{heads} query heads cannot share {key_heads} key heads evenly")


def check_mask(query: TensorSpec, mask: TensorSpec, scores: tuple) -> None:
    """Checks the mask of an attention.

    Raises:
        OpError: its element type is neither bool nor the query's, or it does not broadcast to the shape of the scores.
    """
    if mask.dtype not in (np.dtype(np.bool_), query.dtype):
        raise OpError(f"operand 'mask' must be bool or of the query's element type, but is {mask}")
    if not broadcasts_to(mask.shape, scores):
        raise OpError(f"operand 'mask' must broadcast to the scores' shape {shape_text(scores)}, but is {mask}")
