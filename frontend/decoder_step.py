"""The step of a decoder, which all formats of language models are imported as.

A step takes new tokens with the keys and values of past tokens; it returns logits, and keys and values of all tokens:

    input_ids [batch, length], selected [outputs], starts [batch], past.0.key [batch, heads, past, depth], ..
    --> logits [batch, outputs, vocabulary], present.0.key [batch, heads, past + length, depth], ..

Logits are computed for the new tokens at the indices `selected`. Texts of different lengths end at the same position in
a batch: each begins at its position in `starts`, and earlier keys are masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ..dialects.dims import Dim
from ..dialects.stepwell.elementwise import AddOp, AndOp, GreaterEqualOp, LessEqualOp, MaximumOp, SubOp
from ..dialects.stepwell.movement import ExpandDimsOp
from ..passes.graph.values import dimension
from .build import emit, numbered, scalar
from .imported import ModelInfo, ValueInfo

SOURCE_LENGTHS = "source_lengths"
"""The input of the step of an encoder-decoder with the number of tokens of the source of each text, i64[batch]."""

FLOAT, INDEX = np.dtype(np.float32), np.dtype(np.int64)


@dataclass(frozen=True)
class CachedRows:
    """Keys or values of the tokens of a layer.

    Attributes:
        name: the layer and the part, such as "0.key".
        heads: number of heads.
        depth: elements of a key or value.
        dtype: the type of an element.
    """

    name: str
    heads: int
    depth: int
    dtype: np.dtype = FLOAT

    def info(self, when: str, length: str | int) -> ValueInfo:
        """Returns them as an input or output, such as `past.0.key`."""
        return ValueInfo(f"{when}.{self.name}", self.dtype, ("batch", self.heads, length, self.depth))


def layer_caches(layers: int, heads: int, key_depth: int, value_depth: int) -> list[CachedRows]:
    """Returns the keys and values of layers that are alike."""
    depths = {"key": key_depth, "value": value_depth}
    return [CachedRows(f"{layer}.{part}", heads, depth) for layer in range(layers) for part, depth in depths.items()]


def step_info(
    name: str, caches: Iterable[CachedRows], vocabulary: int | str, more: Sequence[ValueInfo] = ()
) -> ModelInfo:
    """Returns the inputs and outputs of a step; `more` inputs come last."""
    caches = list(caches)
    tokens = ValueInfo("input_ids", INDEX, ("batch", "length"))
    selected, starts = ValueInfo("selected", INDEX, ("outputs",)), ValueInfo("starts", INDEX, ("batch",))
    logits = ValueInfo("logits", FLOAT, ("batch", "outputs", vocabulary))
    inputs = (tokens, selected, starts, *(item.info("past", "past") for item in caches), *more)
    return ModelInfo(name, inputs, (logits, *(item.info("present", "past + length") for item in caches)))


@dataclass(frozen=True)
class StepPositions:
    """Positions of new tokens and of keys in the caches.

    Attributes:
        rows: those of the new tokens, [1, 1, length, 1].
        columns: those of all keys, [past + length].
        starts: those at which texts begin, [batch, 1, 1, 1].
    """

    rows: ir.Value
    columns: ir.Value
    starts: ir.Value

    @staticmethod
    def of(past: Dim, length: Dim, starts: ir.Value) -> StepPositions:
        """Returns the positions of a step; `starts` is its input."""
        rows, columns = _new(past, length), numbered(past + length)
        first = emit(ExpandDimsOp, starts, axes=(1, 2, 3))
        return StepPositions(emit(ExpandDimsOp, rows, axes=(0, 1, 3)), columns, first)

    def mask(self) -> ir.Value:
        """Returns a mask [batch, 1, length, past + length] that is true for tokens of the same text up to each one."""
        is_before = emit(LessEqualOp, self.columns, self.rows)
        return emit(AndOp, is_before, emit(GreaterEqualOp, self.columns, self.starts))


def text_positions(past: Dim, length: Dim, starts: ir.Value) -> ir.Value:
    """Returns the positions of new tokens in their texts, [batch, length]; 0 before the beginning of a text."""
    found = emit(SubOp, _new(past, length), emit(ExpandDimsOp, starts, axes=(1,)))
    return emit(MaximumOp, found, scalar(0, found))


def _new(past: Dim, length: Dim) -> ir.Value:
    return emit(AddOp, numbered(length), dimension(past))
