"""The pattern of `stepwell-multiply-bytes` that joins bytes before they are dequantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import MulOp, SubOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ConcatOp
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import dtype_of, rank_of
from .quantized_values import Quantized, contents_of, dequantized, is_one


@dataclass(frozen=True)
class DequantizeAfterConcat(Pattern[ConcatOp]):
    """concat((a - p) * s, (b - p) * s) --> (concat(a, b) - p) * s, with the same zero point and scale in all

    Models of tools that give all inputs of a concatenation one scale have this form (NNCF, TensorFlow Lite).
    """

    parameters: Mapping[str, np.ndarray] = field(hash=False)
    root = ConcatOp

    def rewrite(self, op: ConcatOp) -> Replacement:
        values = list(op.operation.operands)
        read = [dequantized(value) for value in values]
        found = [item for item in read if item is not None and item.is_bytes]
        if len(found) < len(values):
            return None
        if not _are_equal(found, self.parameters):
            return Refusal("its operands have different scales or zero points")
        first = found[0]
        numbers = [replace(item, zero=None, scale=None).moved() for item in found]
        joined = ConcatOp(*numbers, **op.attribute_values()).result
        return _restored(joined, first, op.result)


def _are_equal(found: Sequence[Quantized], parameters: Mapping[str, np.ndarray]) -> bool:
    first = found[0]
    if not all(is_one(item.zero) and is_one(item.scale) and item.dtype == first.dtype for item in found):
        return False
    return all(
        len(numbers) == 1 and None not in numbers
        for values in ([item.zero for item in found], [item.scale for item in found])
        for numbers in [{_number(value, parameters) for value in values}]
    )


def _number(value: ir.Value | None, parameters: Mapping[str, np.ndarray]) -> float | None:
    """Returns a single number; None if it is not known."""
    contents = contents_of(value, parameters)
    return None if contents is None else float(contents.reshape(-1)[0])


def _restored(numbers: ir.Value, like: Quantized, result: ir.Value) -> ir.Value:
    """Returns the values of integers, as `like` computes its own."""
    assert like.scale is not None, "dequantized reads values with a scale"
    if like.zero is not None:
        numbers = SubOp(CastOp(numbers, dtype=dtype_of(like.zero)).result, like.zero).result
    value = MulOp(CastOp(numbers, dtype=dtype_of(like.scale)).result, like.scale).result
    assert rank_of(value) == rank_of(result), "single values do not enlarge"
    return value if dtype_of(value) == dtype_of(result) else CastOp(value, dtype=dtype_of(result)).result
