"""The pass `stepwell-pack-rows`: packs the rows of padded sequences."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.registry import view_of
from ....dialects.specs import size_of
from ....dialects.stepwell.elementwise import AddOp, DivOp, MaskOp, MaximumOp, MinimumOp, ModOp, MulOp, SubOp
from ....dialects.stepwell.movement import ReshapeOp, SliceOp, TakeRowsOp
from ....dialects.stepwell.normalization import LayerNormOp, RmsNormOp, SoftmaxOp
from ....dialects.stepwell.packed import PackedMatmulOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.functions import body_of, main_function
from ...ir.kernel_classes import kernel_class
from ...ir.values import shape_of
from ...kernel.demand import Demand
from ...kernel.prefixes import Prefix
from ..values import constant

_FLOPS_PER_ELEMENT = 640
"""Minimum number of floating-point operations of products per moved element for packing to pay.

A product of 512 features is 5 % slower with packed rows than without, at most lengths up to 64; one of 768 takes the
same time either way.
"""

_NORMS = LayerNormOp | RmsNormOp | SoftmaxOp


@register
@dataclass(frozen=True)
class PackRowsPass(Pass):
    """Pack the rows of several sequences without gaps if the number and length of the sequences vary.

    In [batch, length, features] at the upper bounds, each sequence ends in padding, and products compute whole tiles of
    rows for each. With packed rows, only the last tile is incomplete.

        %1 = packed_matmul(%0, %w) : (tensor<64x32x384xf32>, ...) -> tensor<64x32x1536xf32>
        -->
        %rows = take_rows(%0, %dense) {leading = 2} : (tensor<64x32x384xf32>, tensor<2048xi64>) -> tensor<2048x384xf32>
        %products = packed_matmul(%rows, %w) : (tensor<2048x384xf32>, ...) -> tensor<2048x1536xf32>
        %1 = take_rows(%products, %apart) : (tensor<2048x1536xf32>, tensor<64x32xi64>) -> tensor<64x32x1536xf32>

    The other ops on rows in between are packed too. Packing applies if the products are enough work to pay for moving
    the rows in and out.

    Preconditions: weights are packed; the module has a table of extents, `stepwell.table`.
    """

    name = "stepwell-pack-rows"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites @main."""
        if not discardable.TABLE.is_on(op):
            return
        main = main_function(op)
        demand = Demand(op, main)
        operations = [item.operation for item in body_of(main).operations]
        by_lead: dict[str, _Region] = {}
        for item in operations[:-1]:
            lead = _lead(demand, item)
            if lead is not None and _works_on_rows(item, demand, lead):
                by_lead.setdefault(str(lead), _Region(demand, lead)).operations.append(item)
        table = body_of(main).arguments[len(body_of(main).arguments) - 1]
        for region in by_lead.values():
            region.pack(main, table)


@dataclass(frozen=True)
class _Lead:
    """The first two dimensions of tensors: their sizes, and the extents that hold data."""

    sizes: tuple[int, int]
    prefixes: tuple[Prefix, Prefix]


def _lead(demand: Demand, op: ir.Operation) -> _Lead | None:
    """The first two dimensions of an op's result if both vary; None otherwise."""
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
        return None
    prefixes, sizes = demand.data(op.results[0]), shape_of(op.results[0])
    if len(sizes) < 3 or len(prefixes) < 3 or sizes[0] == 1:
        return None
    first, second = prefixes[:2]
    if not all(isinstance(prefix, str | list) for prefix in (first, second)):
        return None
    if any(prefix is not None for prefix in prefixes[2:]):
        return None
    return _Lead((sizes[0], sizes[1]), (first, second))


def _works_on_rows(op: ir.Operation, demand: Demand, lead: _Lead) -> bool:
    """Returns whether an op computes each row of its result from the same rows of operands and from shared values."""
    view = view_of(op)
    if isinstance(view, MaskOp):
        # Such a mask has no effect on packed rows, which all hold data.
        mask = shape_of(op.operands[1])
        along = [axis for axis, size in enumerate(mask, len(shape_of(op.results[0])) - len(mask)) if size != 1]
        return along in ([0], [1]) and view.extent >= 0 and demand.entry(lead.prefixes[along[0]]) == view.extent
    if isinstance(view, PackedMatmulOp):
        return view.batch == 1 and len(shape_of(op.results[0])) > 2
    if isinstance(view, _NORMS):
        rank = len(shape_of(op.results[0]))
        return view.attribute_values()["axis"] % rank >= 2
    if kernel_class(op) != "elementwise":
        return False
    rank = len(shape_of(op.results[0]))
    return all(_is_row_wise(value, rank, lead) for value in op.operands)


def _is_row_wise(value: ir.Value, rank: int, lead: _Lead) -> bool:
    sizes = shape_of(value)
    here = ((1,) * (rank - len(sizes)) + sizes)[:2]
    return here in (lead.sizes, (1, 1))


@dataclass
class _Region:
    """Ops on the same rows."""

    demand: Demand
    lead: _Lead
    operations: list[ir.Operation] = field(default_factory=list)

    def pack(self, main: ir.Operation, table: ir.Value) -> None:
        """Packs the parts for which it pays."""
        parts = [part for part in self._parts() if _is_worth_it(part)]
        if not parts:
            return
        first = body_of(main).operations[0]
        with first.location, ir.InsertionPoint(first):
            indices = _RowIndices.of(self.lead, self.demand, table)
        for part in parts:
            _Packer(part, self.lead, indices).run()

    def _parts(self) -> list[list[ir.Operation]]:
        """The connected components of the ops."""
        number_of: dict[ir.Value, int] = {}
        parts: dict[int, list[int]] = {}
        for index, op in enumerate(self.operations):
            found = sorted({number_of[value] for value in _rows_of(op) if value in number_of})
            number = found[0] if found else index
            joined = [index, *(moved for other in found[1:] for moved in parts.pop(other))]
            parts[number] = [*parts.get(number, ()), *joined]
            number_of |= {self.operations[moved].results[0]: number for moved in joined}
        return [[self.operations[index] for index in sorted(part)] for part in parts.values()]


def _rows_of(op: ir.Operation) -> list[ir.Value]:
    """The operands with the same rows as the result."""
    if view_of(op) is None or isinstance(view_of(op), PackedMatmulOp | MaskOp | _NORMS):
        return [op.operands[0]]
    lead = shape_of(op.results[0])[:2]
    rank = len(shape_of(op.results[0]))
    return [value for value in op.operands if len(shape_of(value)) == rank and shape_of(value)[:2] == lead]


def _is_worth_it(part: Sequence[ir.Operation]) -> bool:
    """Returns whether the products of a part are enough work to pay for moving rows."""
    views = [view_of(op) for op in part]
    work = sum(view.flops() for view in views if isinstance(view, PackedMatmulOp))
    made = {op.results[0] for op in part}
    entering = {value for op in part for value in _rows_of(op)} - made
    leaving = [value for value in made if any(not _is_by(use, made) for use in value.uses)]
    return work > 0 and work >= _FLOPS_PER_ELEMENT * sum(map(size_of, [*entering, *leaving]))


def _is_by(use: ir.OpOperand, made: Collection[ir.Value]) -> bool:
    """Returns whether the user of a value is one of the ops that compute the values `made`."""
    results = use.owner.operation.results
    return len(results) == 1 and results[0] in made


@dataclass(frozen=True)
class _RowIndices:
    """Indices that convert between padded and packed rows.

    Attributes:
        to_padded: for each packed row, its index in the padded tensor [rows].
        to_packed: for each position in the padded tensor, its packed row, or that of the preceding row in padding
            [first, second].
        entries: entries of the table for both dimensions and for the number of packed rows.
    """

    to_padded: ir.Value
    to_packed: ir.Value
    entries: tuple[int, int, int]

    @staticmethod
    def of(lead: _Lead, demand: Demand, table: ir.Value) -> _RowIndices:
        first, second = lead.sizes
        entries = tuple(demand.entry(prefix) for prefix in (*lead.prefixes, ["*", *lead.prefixes]))
        count = SliceOp(table, starts=(entries[1],), stops=(entries[1] + 1,), steps=(1,)).result
        rows = constant(np.arange(first * second))
        row, col = DivOp(rows, count).result, ModOp(rows, count).result
        to_padded = AddOp(MulOp(row, constant(np.array(second))).result, col).result
        last = SubOp(MaximumOp(count, constant(np.array(1))).result, constant(np.array(1))).result
        cols = MinimumOp(constant(np.arange(second)), last).result
        starts = MulOp(constant(np.arange(first).reshape(-1, 1)), count).result
        to_packed = AddOp(starts, cols).result
        return _RowIndices(to_padded, to_packed, (entries[0], entries[1], entries[2]))


@dataclass
class _Packer:
    """Replaces ops by the same ops on packed rows."""

    part: Sequence[ir.Operation]
    lead: _Lead
    indices: _RowIndices
    _packed: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrites the ops."""
        inside = {op.results[0] for op in self.part}
        for op in self.part:
            with op.location, ir.InsertionPoint(op):
                self._packed[op.results[0]] = self._packed_op(op)
        for op in reversed(self.part):
            outside = [use for use in op.results[0].uses if not _is_by(use, inside)]
            if outside:
                with op.location, ir.InsertionPoint.after(op):
                    value = self._unpacked(op)
                for use in outside:
                    use.owner.operation.operands[use.operand_number] = value
        for op in reversed(self.part):
            op.erase()

    def _packed_op(self, op: ir.Operation) -> ir.Value:
        rows = _rows_of(op)
        if isinstance(view_of(op), MaskOp):
            return self._rows(rows[0])
        operands = [self._rows(value) if value in rows else self._shared(value, op) for value in op.operands]
        new = op.clone()
        for index, value in enumerate(operands):
            new.operands[index] = value
        sizes = shape_of(op.results[0])
        element = ir.RankedTensorType(op.results[0].type).element_type
        new.results[0].set_type(ir.RankedTensorType.get([math.prod(sizes[:2]), *sizes[2:]], element))
        if isinstance(view_of(op), _NORMS):
            axis = ir.IntegerAttr(op.attributes["axis"]).value
            new.attributes["axis"] = ir.IntegerAttr.get(op.attributes["axis"].type, axis - (axis > 0))
        return new.results[0]

    def _rows(self, value: ir.Value) -> ir.Value:
        """The packed rows of a value."""
        if value not in self._packed:
            taken = TakeRowsOp(value, self.indices.to_padded, leading=2, extents=self.indices.entries[:2]).result
            self._packed[value] = taken
        return self._packed[value]

    def _shared(self, value: ir.Value, op: ir.Operation) -> ir.Value:
        """A value shared by all rows, without one of its leading unit dimensions if it has full rank."""
        sizes, rank = shape_of(value), len(shape_of(op.results[0]))
        if isinstance(view_of(op), PackedMatmulOp | _NORMS) or len(sizes) < rank:
            return value
        return ReshapeOp(value, shape=tuple(sizes[1:])).result

    def _unpacked(self, op: ir.Operation) -> ir.Value:
        """The rows in their padded layout; padding repeats the row before it."""
        packed = self._packed[op.results[0]]
        value = TakeRowsOp(packed, self.indices.to_packed, leading=1, extents=self.indices.entries[2:]).result
        view = view_of(op)
        if isinstance(view, MaskOp):
            return MaskOp(value, view.mask, otherwise=view.otherwise, extent=view.extent).result
        return value
