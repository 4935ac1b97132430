"""`stepwell-form-views`: replaces movement that needs no copy by views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import tensor

from ...dialects.registry import OPS
from ...dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, SliceOp
from ...dialects.stepwell.shape import BorderOp
from ...dialects.types import numpy_dtype
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import main_function
from ..ir.rewriting import walk
from ..ir.values import shape_of
from .views import strides_of, works_on_views


@register
@dataclass(frozen=True)
class FormViewsPass(Pass):
    """Compute the operands of concatenation and padding in place, and read slices in place.

    The operands of a `concat`, and the input of a `pad`, become parts of one tensor each that kernels write into. A
    value that cannot be computed in place is copied there by a full `slice`.

    ```mlir
    %a = "stepwell.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = "stepwell.tanh"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %0 = "stepwell.concat"(%a, %b) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %1 = "stepwell.pad"(%0) {low = array<i64: 1, 0>, high = array<i64: 1, 0>, ...}
    // -->
    %whole = "stepwell.border"() {shape = array<i64: 6, 16>, low = array<i64: 1, 0>, high = array<i64: 1, 0>, ...}
    %a = "stepwell.relu"(%x)
    %0 = tensor.insert_slice %a into %whole[1, 0] [4, 8] [1, 1]
    %b = "stepwell.tanh"(%x)
    %1 = tensor.insert_slice %b into %0[1, 8] [4, 8] [1, 1]
    ```

    Preconditions: phase `graph`, static shapes. Passes on stepwell ops must not run after it, because they do not know
    the tensor ops.
    """

    name = "stepwell-form-views"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every block of @main."""
        main = main_function(op)
        # Collected before any op is erased.
        for block in [block for function in (main, *walk(main)) for region in function.regions for block in region]:
            _share_padding(block)
            _Placer(block).run()
            _view_slices(block)


# Roles of a part, in the order in which several parts at one op are handled.
_COMPUTED, _COPIED, _VIEWED = range(3)


@dataclass
class _Part:
    """A value that is a part of a larger one.

    Attributes:
        value: the value.
        offsets: indices of its first element in the larger value.
        role: whether the value is computed there, copied there, or is a concatenation of parts that are there already.
        at: position of the op that defines or needs it.
    """

    value: ir.Value
    offsets: list[int]
    role: int
    at: int


class _Placer:
    """Assigns the values of one block their offsets in larger tensors."""

    def __init__(self, block: ir.Block) -> None:
        self._ops = [op.operation for op in block.operations]
        self._position = {result: index for index, op in enumerate(self._ops) for result in op.results}
        self._taken: set[ir.Value] = set()
        self._dead: list[ir.Operation] = []

    def run(self) -> None:
        """Rewrites concatenations and padding from the last one up, because later ones contain earlier ones."""
        wholes = [op for op in self._ops if op.name == ConcatOp.OPERATION_NAME or _is_constant_pad(op)]
        for op in reversed(wholes):
            if op.results[0] in self._taken:
                continue
            before = set(self._taken)
            parts = self._parts(op, _first_offsets(op))
            if any(part.role == _COMPUTED for part in parts):
                self._rewrite(op, parts)
            else:
                self._taken = before
        # Erased only now, because values are identified by address.
        for op in sorted(self._dead, key=lambda op: -self._position[op.results[0]]):
            op.erase()

    def _parts(self, op: ir.Operation, offsets: Sequence[int]) -> list[_Part]:
        """The parts of the result of `op`, whose first operand begins at `offsets`."""
        parts: list[_Part] = []
        open_ = [(op, iter(list(op.operands)), list(offsets))]
        while open_:  # a stack, because thousands may be nested
            whole, operands, place = open_[-1]
            value = next(operands, None)
            if value is None:
                open_.pop()
                continue
            where, is_made = list(place), self._may_be_computed_in_place(value)
            if whole.name == ConcatOp.OPERATION_NAME:
                axis = ConcatOp(whole).axis % len(place)
                place[axis] += shape_of(value)[axis]
            if not is_made:
                parts.append(_Part(value, where, _COPIED, self._position[whole.results[0]]))
                continue
            self._taken.add(value)
            is_whole = value.owner.name == ConcatOp.OPERATION_NAME
            parts.append(_Part(value, where, _VIEWED if is_whole else _COMPUTED, self._position[value]))
            if is_whole:
                open_.append((value.owner.operation, iter(list(value.owner.operands)), list(where)))
        return parts

    def _may_be_computed_in_place(self, value: ir.Value) -> bool:
        if value in self._taken or value not in self._position or not works_on_views(value.owner):
            return False
        return all(works_on_views(use.owner) for use in value.uses)

    def _rewrite(self, op: ir.Operation, parts: Sequence[_Part]) -> None:
        """Inserts the parts into one tensor in the order in which they are computed."""
        parts = sorted(parts, key=lambda part: (part.at, part.role))
        with op.location, ir.InsertionPoint(self._ops[parts[0].at]):
            current = _whole_tensor(op)
        moved: dict[ir.Value, ir.Value] = {}
        for part in parts:
            owner = self._ops[part.at]
            point = ir.InsertionPoint.after(owner) if part.role == _COMPUTED else ir.InsertionPoint(owner)
            with op.location, point:
                if part.role == _VIEWED:
                    # Readers of an inner concatenation read that part of the whole tensor.
                    moved[part.value] = _extract(current, part.offsets, part.value)
                    part.value.replace_all_uses_with(moved[part.value])
                    continue
                value = part.value if part.role == _COMPUTED else _copy(moved.get(part.value, part.value))
                current = _insert(value, current, part.offsets)
        op.results[0].replace_all_uses_with(current)
        self._dead += [op, *(part.value.owner.operation for part in parts if part.role == _VIEWED)]


def _share_padding(block: ir.Block) -> None:
    """Pads a value once, with the widest border, if several ops pad it; the other results are slices of that.

    pad(x, 1), pad(x, 2) --> slice(pad(x, 2), 1), pad(x, 2)
    """
    groups: dict[tuple[ir.Value, float], list[PadOp]] = {}
    for op in [item.operation for item in block.operations]:
        if _is_constant_pad(op):
            pad = PadOp(op)
            groups.setdefault((pad.input, pad.value), []).append(pad)
    for pads in groups.values():
        if len(pads) < 2:
            continue
        low, high = (
            [max(amounts) for amounts in zip(*rows, strict=True)]
            for rows in ([pad.low for pad in pads], [pad.high for pad in pads])
        )
        with pads[0].operation.location, ir.InsertionPoint(pads[0]):
            widest = PadOp(pads[0].input, low=tuple(low), high=tuple(high), value=pads[0].value).result
        for pad in pads:
            with pad.operation.location, ir.InsertionPoint(pad):
                result = _slice_within(widest, [by - own for by, own in zip(low, pad.low, strict=True)], pad.result)
            pad.result.replace_all_uses_with(result)
            pad.operation.erase()


def _slice_within(whole: ir.Value, starts: Sequence[int], like: ir.Value) -> ir.Value:
    """The part of `whole` that begins at `starts` and has the shape of `like`."""
    shape = shape_of(like)
    if shape_of(whole) == shape:
        return whole
    stops = tuple(start + extent for start, extent in zip(starts, shape, strict=True))
    return SliceOp(whole, starts=tuple(starts), stops=stops, steps=(1,) * len(shape)).result


def _view_slices(block: ir.Block) -> None:
    """Replaces slices by views if all their readers can read views."""
    for op in [item.operation for item in block.operations if item.operation.name == SliceOp.OPERATION_NAME]:
        view = SliceOp(op)
        if _is_weight(view.input) or not _is_read_as_view(view.result, _is_contiguous_part(view)):
            continue
        with op.location, ir.InsertionPoint(op):
            part = _extract(view.input, view.starts, view.result, view.steps)
        if not _has_contiguous_rows(part):
            part.owner.erase()
            continue
        view.result.replace_all_uses_with(part)
        op.erase()


def _is_read_as_view(value: ir.Value, is_contiguous: bool) -> bool:
    """Returns whether all readers of a slice read views; kernels read a contiguous one as they read whole tensors."""
    return all(_reads_view(use.owner.operation, is_contiguous) for use in value.uses)


def _reads_view(reader: ir.Operation, is_contiguous: bool) -> bool:
    if works_on_views(reader):
        return True
    if reader.name == ReshapeOp.OPERATION_NAME:
        return is_contiguous and _is_read_as_view(reader.results[0], True)
    kind = OPS.get(reader.name)
    return is_contiguous and kind is not None and kind.KERNEL is not None


def _is_contiguous_part(op: SliceOp) -> bool:
    """Returns whether a slice is a part of the outermost dimension."""
    whole, part = shape_of(op.input), shape_of(op.result)
    return whole[1:] == part[1:] and op.steps[0] == 1


def _has_contiguous_rows(value: ir.Value) -> bool:
    """Returns whether the elements along the last dimension of size > 1 are contiguous."""
    strides = strides_of(value)
    if strides is None:
        return True
    pairs = zip(shape_of(value), strides, strict=True)
    return next((stride == 1 for extent, stride in reversed(list(pairs)) if extent != 1), True)


def _is_weight(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name in ("stepwell.parameter", "stepwell.constant")


def _is_constant_pad(op: ir.Operation) -> bool:
    return op.name == PadOp.OPERATION_NAME and PadOp(op).mode == "constant"


def _first_offsets(op: ir.Operation) -> Sequence[int]:
    """The offsets of the first operand of a concatenation or padding in its result."""
    return PadOp(op).low if op.name == PadOp.OPERATION_NAME else [0] * len(shape_of(op.results[0]))


def _extract(whole: ir.Value, offsets: Sequence[int], like: ir.Value, steps: Sequence[int] = ()) -> ir.Value:
    shape = shape_of(like)
    steps = list(steps) or [1] * len(shape)
    return tensor.ExtractSliceOp(like.type, whole, [], [], [], list(offsets), shape, steps).result


def _insert(part: ir.Value, whole: ir.Value, offsets: Sequence[int]) -> ir.Value:
    shape = shape_of(part)
    return tensor.InsertSliceOp(part, whole, [], [], [], list(offsets), shape, [1] * len(shape)).result


def _copy(value: ir.Value) -> ir.Value:
    shape = tuple(shape_of(value))
    return SliceOp(value, starts=(0,) * len(shape), stops=shape, steps=(1,) * len(shape)).result


def _whole_tensor(op: ir.Operation) -> ir.Value:
    """A tensor for the result of `op` that holds only the padding."""
    kind = ir.RankedTensorType(op.results[0].type)
    if op.name == ConcatOp.OPERATION_NAME:
        return tensor.EmptyOp(list(kind.shape), kind.element_type).result
    pad = PadOp(op)
    value = np.array(pad.value, numpy_dtype(kind.element_type))
    return BorderOp(shape=tuple(kind.shape), low=pad.low, high=pad.high, value=value).result
