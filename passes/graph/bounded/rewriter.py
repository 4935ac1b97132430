"""Makes the graph at the bounds right for every size below: what rules of ops work with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor

from ....dialects.core import Op
from ....dialects.dims import Dim
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.elementwise import CastOp, KeepOp, LessOp, MulOp
from ....dialects.stepwell.movement import ConcatOp, GatherOp, ReshapeOp, ResizeOp
from ....dialects.types import is_float
from ..values import constant, dtype_of, shape_of, splat_constant
from .extents import Expression, Extent, expression, is_dynamic, size_of, whole
from .fitting import Fitter, Ranges, at
from .projections import repeats_elements, source_of
from .snapshot import BoundedError, OpState, numbered


@dataclass
class Rewriter:
    """What is known of the values of a graph at its bounds, and the ops that rules add to it.

    Attributes:
        table: the argument that holds the extents, 1-D i64.
        start: an op before all others, before which come the masks.
        fitter: finds expressions over sizes.
        ranges: the least and the greatest size by name, and the step.
        expressions: what the table's entries are.
        extents: the dimensions of every value.
    """

    table: ir.Value
    start: ir.Operation
    fitter: Fitter
    ranges: Ranges
    expressions: list[Expression] = field(default_factory=list)
    extents: dict[ir.Value, list[Extent]] = field(default_factory=dict)
    _entries: dict[Dim, int] = field(default_factory=dict)
    _clean: dict[ir.Value, set[tuple[int, float]]] = field(default_factory=dict)
    _repeated: dict[ir.Value, set[int]] = field(default_factory=dict)
    _masks: dict[tuple, ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value) -> list[Extent]:
        """The dimensions of a value."""
        if value not in self.extents:
            self.extents[value] = [whole(size) for size in shape_of(value) or ()]
        return self.extents[value]

    def dynamic(self, value: ir.Value) -> list[int]:
        """The dimensions of a value whose sizes vary."""
        return [axis for axis, extent in enumerate(self.of(value)) if is_dynamic(extent)]

    def entry(self, dim: Dim) -> int:
        """The place of an expression in the table."""
        if dim not in self._entries:
            self._entries[dim] = len(self.expressions)
            self.expressions.append(expression(dim))
        return self._entries[dim]

    def end_of(self, extent: Extent) -> int:
        """The place in the table of how many elements of a dimension come before the end of its data; -1 for all."""
        first, *others = extent
        if not first.is_dynamic:
            return -1
        return self.entry(first.extent * math.prod(factor.size for factor in others))

    def numbers(self, entries: np.ndarray) -> ir.Value:
        """A tensor of run-time numbers, i64: an array of expressions."""
        places = np.array([self.entry(dim) for dim in entries.flat], np.int64).reshape(entries.shape)
        return self.noted(GatherOp(self.table, ConstantOp(value=places), axis=0))

    def number(self, dim: Dim, dtype: np.dtype) -> ir.Value:
        """A scalar run-time number."""
        value = self.numbers(np.array(dim, object))
        return value if dtype == np.int64 else self.noted(CastOp(value, dtype=dtype))

    def use_number(self, op: ir.Operation, place: int, dim: Dim) -> None:
        """Lets an operand of an op, an index, be a run-time number."""
        value = tensor.ExtractOp(self.number(dim, np.dtype(np.int64)), []).result
        op.operands[place] = arith.IndexCastOp(ir.IndexType.get(), value).result

    def noted(self, op: Op, extents: Sequence[Extent] | None = None) -> ir.Value:
        """The result of a new op, whose dimensions are `extents` (all static ones, if they are not given)."""
        result = op.operation.results[0]
        self.extents[result] = (
            list(extents) if extents is not None else [whole(size) for size in shape_of(result) or ()]
        )
        return result

    def mask(self, extent: Extent, axis: int, rank: int, dtype: np.dtype) -> ir.Value:
        """1 where dimension `axis` of `rank` holds data and 0 elsewhere, all other dimensions of size 1."""
        key = (extent, rank - axis, dtype)
        if key not in self._masks:
            with ir.InsertionPoint(self.start):
                sizes, parts = [factor.size for factor in extent], []
                for place, factor in enumerate(extent):
                    if factor.is_dynamic:
                        index = numbered(factor.size).reshape(-1, *[1] * (len(sizes) - place - 1))
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
        return value if shape_of(value) == tuple(shape) else self.noted(ReshapeOp(value, shape=tuple(shape)))

    def reshaped_to(self, value: ir.Value, extents: Sequence[Extent]) -> ir.Value:
        """A reshape to dimensions in which the data lies where it is."""
        shape = tuple(map(size_of, extents))
        return value if shape_of(value) == shape else self.noted(ReshapeOp(value, shape=shape), extents)

    def keep(self, value: ir.Value, axes: Sequence[int], otherwise: float) -> ir.Value:
        """`value` with the number `otherwise` wherever one of some dimensions holds no data."""
        for axis in axes:
            extent = self.of(value)[axis]
            if not is_dynamic(extent) or (axis, otherwise) in self._clean.get(value, ()):
                continue
            if self._keep_parts(value, axis, otherwise):
                self._clean.setdefault(value, set()).add((axis, otherwise))
                continue
            mask = self.mask(extent, axis, len(self.of(value)), dtype_of(value))
            with self._after(value), _location(value):
                entry = self.entry(extent[0].extent) if len(extent) == 1 else -1
                kept = self.noted(KeepOp(value, mask, otherwise=otherwise, extent=entry), self.of(value))
            known = self._clean.get(value, set())
            if all(item[1] == otherwise for item in known):
                # Garbage may be anything, so all readers may see this: what makes the value then makes nothing else.
                value.replace_all_uses_except(kept, kept.owner.operation)
            self._clean[kept] = {item for item in known if item[1] == otherwise} | {(axis, otherwise)}
            value = kept
        return value

    def _keep_parts(self, value: ir.Value, axis: int, otherwise: float) -> bool:
        """Keeps what a value is put together from instead, where that does: whoever makes that does it on the way."""
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
        for place, part in enumerate(list(op.operands)):
            op.operands[place] = self.keep(part, [axis], otherwise)
        return True

    def is_zero_beyond(self, value: ir.Value) -> None:
        """Notes of an input that whoever runs the program leaves zeros where it holds no data."""
        self._clean[value] = {(axis, 0.0) for axis in self.dynamic(value)}

    def is_bordered(self, value: ir.Value, axis: int, of: ir.Value, otherwise: float | None) -> None:
        """Notes what is beyond the data along a dimension of `value`, which is `of` with something around it.

        It is a number, or None for elements of the data.
        """
        self._repeated[value] = self._repeated.get(of, set()) | ({axis} if otherwise is None else set())
        known = {item for item in self._clean.get(of, ()) if item[0] != axis}
        self._clean[value] = {item for item in known if otherwise in (None, item[1])}
        if otherwise is not None:
            self._clean[value].add((axis, otherwise))

    def repeats_data(self, value: ir.Value, axis: int) -> bool:
        """Whether there are elements of the data where a dimension holds none."""
        return axis in self._repeated.get(value, ())

    def kept_here(self, value: ir.Value, axes: Sequence[int], otherwise: float) -> ir.Value:
        """As `keep`, for the op that is being made alone.

        A reduction reads its input through the mask, so that nobody has to fill what lies beyond the data, and what
        makes the input can stop where the data ends.
        """
        for axis in axes:
            extent = self.of(value)[axis]
            if is_dynamic(extent):
                mask = self.mask(extent, axis, len(self.of(value)), dtype_of(value))
                entry = self.entry(extent[0].extent) if len(extent) == 1 else -1
                value = self.noted(KeepOp(value, mask, otherwise=otherwise, extent=entry), self.of(value))
        return value

    def finite(self, value: ir.Value, axis: int) -> ir.Value:
        """`value` with finite numbers where dimension `axis` holds no data.

        Where it is a projection of a value, that is made 0 there, which costs nothing where it is made.
        """
        source = source_of(value, axis, self.of)
        if source is None:
            return self.keep(value, [axis], 0.0)
        self.keep(source[0], [source[1]], 0.0)
        return value

    def _after(self, value: ir.Value) -> ir.InsertionPoint:
        """Behind what makes a value; of an argument, and what is made of that alone, behind the masks."""
        owner = value.owner
        while not isinstance(owner, ir.Block) and owner.name == KeepOp.OPERATION_NAME:
            owner = owner.operands[0].owner
        if not isinstance(owner, ir.Block):
            return ir.InsertionPoint.after(value.owner)
        if owner == self.table.owner:
            return ir.InsertionPoint(self.start)
        return ir.InsertionPoint.at_block_begin(owner) if value.owner == owner else ir.InsertionPoint.after(value.owner)

    def fit(self, values: Sequence[int], what: str) -> Dim:
        """The expression with these values at the sizes that were looked at.

        Raises:
            BoundedError: there is none of a simple form.
        """
        found = self.fitter.fit(values)
        if found is None:
            raise BoundedError(f"{what} depends on the sizes in no simple way ({', '.join(map(str, values))})")
        return found

    def divided(self, dim: Dim, count: int) -> Dim | None:
        """An expression divided by a number; None where there is a remainder at some size."""
        values = [value for value in self.fitter.values(dim) if value is not None]
        if any(value % count for value in values):
            return None
        return self.fitter.fit([value // count for value in values])

    def least(self, dim: Dim) -> int:
        """The least value of an expression that grows with the sizes."""
        value = at(dim, {name: low for name, (low, _, _) in self.ranges.items()})
        assert value is not None
        return value


Rule = Callable[[Rewriter, Any, Sequence[OpState]], Sequence[Sequence[Extent]] | None]
"""Makes an op right for every size, and gives the dimensions of its results; None where it replaced the op."""


def _location(value: ir.Value) -> ir.Location:
    return value.owner.owner.location if isinstance(value.owner, ir.Block) else value.owner.location


def replace(op: Op, value: ir.Value) -> None:
    """Makes all readers of an op read a value."""
    op.operation.results[0].replace_all_uses_with(value)


def least_of(dtype: np.dtype) -> float:
    """The least number of a type; False, of bools."""
    if dtype == np.bool_:
        return 0.0
    return -math.inf if is_float(dtype) else float(np.iinfo(dtype).min)
