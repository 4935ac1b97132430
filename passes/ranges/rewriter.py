"""The rewriter that rules use to make a graph at its upper bounds correct for every smaller size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from ...dialects.core import Op
from ...dialects.dims import Dim
from ...dialects.interfaces import Interface
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.elementwise import CastOp, LessOp, MaskOp, MulOp
from ...dialects.stepwell.movement import ConcatOp, GatherOp, ReshapeOp, ResizeOp
from ...sizes.algebra import floor_div
from ...sizes.expressions import Expression, expression_of
from ..graph.values import constant, dtype_of, splat_constant, static_shape
from .extents import Extent, is_dynamic, numbered, size_of, whole
from .projections import repeats_elements, source_of
from .states import OpState
from .units import Units


@dataclass
class Rewriter:
    """The symbolic extents of values in a graph at its upper bounds, and helpers that add ops to it.

    Attributes:
        table: the argument that is the table of extents, 1-D i64.
        start: an op before all others; masks are inserted before it.
        units: the sizes and their ranges; all extents are expressions over units.
        expressions: expressions of the table's entries.
        extents: dimensions of every value.
    """

    table: ir.Value
    start: ir.Operation
    units: Units
    expressions: list[Expression] = field(default_factory=list)
    extents: dict[ir.Value, list[Extent]] = field(default_factory=dict)
    _entries: dict[Dim, int] = field(default_factory=dict)
    _known_padding: dict[ir.Value, set[tuple[int, float]]] = field(default_factory=dict)
    _repeated: dict[ir.Value, set[int]] = field(default_factory=dict)
    _masks: dict[tuple, ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value) -> list[Extent]:
        """The dimensions of a value."""
        if value not in self.extents:
            self.extents[value] = [whole(size) for size in static_shape(value) or ()]
        return self.extents[value]

    def dynamic(self, value: ir.Value) -> list[int]:
        """The dimensions of a value whose sizes vary."""
        return [axis for axis, extent in enumerate(self.of(value)) if is_dynamic(extent)]

    def entry(self, dim: Dim) -> int:
        """The index of an expression in the table; added if missing."""
        if dim not in self._entries:
            self._entries[dim] = len(self.expressions)
            self.expressions.append(expression_of(self.units.sizes(dim)))
        return self._entries[dim]

    def end_of(self, extent: Extent) -> int:
        """The table index of the number of elements up to the end of a dimension's data; -1 for all."""
        first, *others = extent
        if not first.is_dynamic:
            return -1
        return self.entry(first.extent * math.prod(factor.size for factor in others))

    def numbers(self, entries: np.ndarray) -> ir.Value:
        """An i64 tensor of run-time values, given as an array of expressions."""
        indices = np.array([self.entry(dim) for dim in entries.flat], np.int64).reshape(entries.shape)
        return self.noted(GatherOp(self.table, ConstantOp(value=indices), axis=0))

    def number(self, dim: Dim, dtype: np.dtype) -> ir.Value:
        """The run-time value of an expression as a scalar."""
        value = self.numbers(np.array(dim, object))
        return value if dtype == np.int64 else self.noted(CastOp(value, dtype=dtype))

    def noted(self, op: Op, extents: Sequence[Extent] | None = None) -> ir.Value:
        """The result of a new op; records its dimensions, `extents`, or static ones if these are not given."""
        result = op.operation.results[0]
        self.extents[result] = (
            list(extents) if extents is not None else [whole(size) for size in static_shape(result) or ()]
        )
        return result

    def mask(self, extent: Extent, axis: int, rank: int, dtype: np.dtype) -> ir.Value:
        """A mask: 1 where dimension `axis` of `rank` holds data, 0 elsewhere; all other dimensions have size 1."""
        key = (extent, rank - axis, dtype)
        if key not in self._masks:
            with ir.InsertionPoint(self.start):
                sizes, parts = [factor.size for factor in extent], []
                for position, factor in enumerate(extent):
                    if factor.is_dynamic:
                        index = numbered(factor.size).reshape(-1, *[1] * (len(sizes) - position - 1))
                        inside = self.noted(LessOp(constant(index), self.number(factor.extent, np.dtype(np.int64))))
                        parts.append(self.noted(CastOp(inside, dtype=dtype)))
                value = parts[0]
                for part in parts[1:]:
                    value = self.noted(MulOp(value, part))
                shape = (size_of(extent), *[1] * (rank - axis - 1))
                if extent[0].is_dynamic and all(factor.is_dynamic for factor in extent):
                    self._masks[key] = self.reshaped(value, shape)
                else:
                    ones = splat_constant(dtype.type(1), sizes)
                    self._masks[key] = self.reshaped(self.noted(MulOp(ones, value)), shape)
        return self._masks[key]

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A reshape of a static tensor."""
        return value if static_shape(value) == tuple(shape) else self.noted(ReshapeOp(value, shape=tuple(shape)))

    def reshaped_to(self, value: ir.Value, extents: Sequence[Extent]) -> ir.Value:
        """A reshape that does not move data."""
        shape = tuple(map(size_of, extents))
        return value if static_shape(value) == shape else self.noted(ReshapeOp(value, shape=shape), extents)

    def masked(self, value: ir.Value, axes: Sequence[int], otherwise: float) -> ir.Value:
        """`value` masked: the number `otherwise` replaces padding along the given dimensions."""
        for axis in axes:
            extent = self.of(value)[axis]
            if not is_dynamic(extent) or (axis, otherwise) in self._known_padding.get(value, ()):
                continue
            if self._mask_operands(value, axis, otherwise):
                self._known_padding.setdefault(value, set()).add((axis, otherwise))
                continue
            mask = self.mask(extent, axis, len(self.of(value)), dtype_of(value))
            with self._after(value), _location(value):
                entry = self.entry(extent[0].extent) if len(extent) == 1 else -1
                kept = self.noted(MaskOp(value, mask, otherwise=otherwise, extent=entry), self.of(value))
            known = self._known_padding.get(value, set())
            if all(item[1] == otherwise for item in known):
                # Padding is undefined, so all readers may use the masked value; the producer then need not store
                # another one.
                value.replace_all_uses_except(kept, kept.owner.operation)
            self._known_padding[kept] = {item for item in known if item[1] == otherwise} | {(axis, otherwise)}
            value = kept
        return value

    def _mask_operands(self, value: ir.Value, axis: int, otherwise: float) -> bool:
        """Masks the operands instead of the result if the op only moves padding; their producers mask for free."""
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if op.name == ConcatOp.OPERATION_NAME:
            extent = self.of(value)[axis]
            if ConcatOp(op).axis % len(self.of(value)) == axis:
                return False
            if any(self.of(part)[axis] != extent for part in op.operands):
                return False
        elif op.name != ResizeOp.OPERATION_NAME or not repeats_elements(ResizeOp(op), axis):
            return False
        for position, part in enumerate(list(op.operands)):
            op.operands[position] = self.masked(part, [axis], otherwise)
        return True

    def is_zero_beyond(self, value: ir.Value) -> None:
        """Records that the caller fills the padding of an input with zeros."""
        self._known_padding[value] = {(axis, 0.0) for axis in self.dynamic(value)}

    def is_bordered(self, value: ir.Value, axis: int, of: ir.Value, otherwise: float | None) -> None:
        """Records the contents behind the data along a dimension of `value`, which is `of` with a border.

        `otherwise` is the number there, or None for repeated elements of the data.
        """
        self._repeated[value] = self._repeated.get(of, set()) | ({axis} if otherwise is None else set())
        known = {item for item in self._known_padding.get(of, ()) if item[0] != axis}
        self._known_padding[value] = {item for item in known if otherwise in (None, item[1])}
        if otherwise is not None:
            self._known_padding[value].add((axis, otherwise))

    def repeats_data(self, value: ir.Value, axis: int) -> bool:
        """Returns whether a dimension repeats elements of the data behind it."""
        return axis in self._repeated.get(value, ())

    def kept_here(self, value: ir.Value, axes: Sequence[int], otherwise: float) -> ir.Value:
        """As `masked`, but only for the op that is being added.

        A reduction reads its input through the mask. The padding then needs no filling, and the producer of the input
        can stop at the end of the data.
        """
        for axis in axes:
            extent = self.of(value)[axis]
            if is_dynamic(extent):
                mask = self.mask(extent, axis, len(self.of(value)), dtype_of(value))
                entry = self.entry(extent[0].extent) if len(extent) == 1 else -1
                value = self.noted(MaskOp(value, mask, otherwise=otherwise, extent=entry), self.of(value))
        return value

    def finite(self, value: ir.Value, axis: int) -> ir.Value:
        """`value` with finite numbers in the padding of dimension `axis`.

        For a projection, its source is masked with 0 instead, which is free in the producer of the source.
        """
        source = source_of(value, axis, self.of)
        if source is None:
            return self.masked(value, [axis], 0.0)
        self.masked(source[0], [source[1]], 0.0)
        return value

    def _after(self, value: ir.Value) -> ir.InsertionPoint:
        """The point after a value's definition; for an argument of @main, or a mask of one, after the masks."""
        owner = value.owner
        while not isinstance(owner, ir.Block) and owner.name == MaskOp.OPERATION_NAME:
            owner = owner.operands[0].owner
        if not isinstance(owner, ir.Block):
            return ir.InsertionPoint.after(value.owner)
        if owner == self.table.owner:
            return ir.InsertionPoint(self.start)
        return ir.InsertionPoint.at_block_begin(owner) if value.owner == owner else ir.InsertionPoint.after(value.owner)

    def divided(self, dim: Dim, count: int) -> Dim | None:
        """An expression divided by an integer; None if there may be a remainder."""
        quotient = floor_div(dim, count)
        return quotient if quotient * count == dim else None


_Rule = Callable[[Rewriter, Any, OpState], Sequence[Sequence[Extent]] | None]
"""Makes an op correct for every size and returns the dimensions of its results; None if it replaced the op."""

PADDING = Interface[_Rule](
    "padding", "keeps an op correct if padding follows the data of a dimension", rooms=("passes.ranges",)
)
"""An op without an implementation may only have operands whose dimensions do not vary."""


def _location(value: ir.Value) -> ir.Location:
    return value.owner.owner.location if isinstance(value.owner, ir.Block) else value.owner.location


def replace(op: Op, value: ir.Value) -> None:
    """Makes all readers of an op read a value."""
    op.operation.results[0].replace_all_uses_with(value)
