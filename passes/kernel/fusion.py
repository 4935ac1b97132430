"""Kernel fusion: groups the ops of one block so that only one value of each group is read outside of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from ...dialects.specs import size_of
from ...dialects.stepwell.movement import ResizeOp, TransposeOp
from ...runtime.remarks import FUSE
from ..infra.state import CompileState
from ..ir.kernel_classes import ANCHOR_ORDER, WITH_EPILOGUES, kernel_class
from ..ir.locations import dominant
from .folded_movement import views_after, views_before
from .masks import is_for_reduction
from .row_fusion import rows_group

# A longer epilogue gains nothing: its operands would no longer fit the vector registers.
_MAX_GROUP = 16
_BYTES = {"i8", "ui8"}
_PRODUCTS = {"contraction", "convolution"}
_ABSORBS_CONSUMERS = WITH_EPILOGUES | {"reduction", "elementwise"}


class Grouping:
    """Assigns every op of a block that does work to one group.

    Contractions choose first (an elementwise op on their registers is free), then reductions, which also absorb the
    elementwise ops that feed them. The remaining elementwise ops form chains, and trees that lead into these.
    """

    def __init__(
        self,
        block: ir.Block,
        mixes_floats: bool = False,
        row_bytes: int = 0,
        products_alone: bool = False,
        is_apart: Callable[[ir.Operation], bool] = lambda op: False,
    ) -> None:
        """Groups the ops of a block.

        Args:
            block: block whose ops are grouped.
            row_bytes: maximum bytes of rows of which several reductions may share a kernel; 0 if none may.
            mixes_floats: whether a contraction or reduction kernel may mix floats of several widths. GPU threads hold
                single elements; CPU vector lanes should all have one width.
            products_alone: whether contractions and convolutions absorb no consumers.
            is_apart: returns whether an elementwise op that could share a kernel must not.
        """
        self._is_apart = is_apart
        self._absorbing = _ABSORBS_CONSUMERS - _PRODUCTS if products_alone else _ABSORBS_CONSUMERS
        self._mixes_floats = mixes_floats
        self._row_bytes = row_bytes
        self._ops = [op.operation for op in block.operations]
        self._position = {op: index for index, op in enumerate(self._ops)}
        self._class = {op: kernel_class(op) for op in self._ops}
        self._assigned: set[ir.Operation] = set()
        self._reasons: dict[tuple[int, int], str] = {}
        self.groups: list[list[ir.Operation]] = []
        for wanted in ANCHOR_ORDER:
            # The last concat of a chain is the anchor.
            for op in reversed(self._ops) if wanted == "movement" else self._ops:
                if self._class[op] == wanted and op not in self._assigned:
                    self._form(op, wanted)
        self.groups.sort(key=lambda group: self._position[group[-1]])

    def note_refusals(self, state: CompileState) -> None:
        """Adds remarks on why elementwise ops are in other kernels than the producers or readers of their values."""
        group_of = {op: number for number, group in enumerate(self.groups) for op in group}
        for reader, number in group_of.items():
            for value in reader.operands:
                maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
                if maker is None or group_of.get(maker, number) == number:
                    continue
                kinds = self._class[maker], self._class[reader]
                reason = self._reasons.get((self._position[maker], self._position[reader]))
                if reason is None and kinds[1] == "elementwise":
                    reason = f"kernels of class {kinds[0]} absorb no consumers"
                    if kinds[0] in self._absorbing:
                        reason = "its producer shares a kernel with other ops"
                names = dominant(maker.location), dominant(reader.location)
                if reason is not None and all(names):
                    state.missed(FUSE, names[1:], reason, reads=names[:1])

    def _refuse(self, maker: ir.Value, reader: ir.Operation, reason: str) -> None:
        """Records why `reader` is not in one kernel with the op that defines `maker`."""
        if not isinstance(maker.owner, ir.Block):
            where = self._position.get(maker.owner.operation, -1), self._position.get(reader, -1)
            self._reasons[where] = reason

    def _form(self, anchor: ir.Operation, kind: str) -> None:
        group = [anchor]
        if kind in self._absorbing:
            group = self._with_consumers(anchor, floats_only=kind != "elementwise" and not _sums_widely(anchor))
            if _sums_widely(anchor):
                group = self._with_feeders(group, are_widening=True)
        if kind == "attention":
            group = self._with_views(anchor)
        if anchor.name == TransposeOp.OPERATION_NAME:
            group = [*views_before(anchor.operands[0], self._is_free_slice), anchor]
        if kind == "reduction":
            feeders = self._producers(anchor)
            group = self._rows(anchor, feeders) or [*feeders, *group]
        if kind == "elementwise":
            group = self._with_feeders(group)
            group = [*self._enlargements(group), *group]
        if anchor.name == "stepwell.concat":
            group = [*self._concat_chain(anchor), anchor]
        group.sort(key=self._position.__getitem__)
        self._assigned.update(group)
        self.groups.append(group)

    def _with_consumers(self, anchor: ir.Operation, floats_only: bool) -> list[ir.Operation]:
        """The longest run of elementwise consumers of the anchor's shape from which only one value is read outside."""
        group = best = [anchor]
        heap = self._users(anchor)
        while heap and len(group) < _MAX_GROUP:
            user = self._ops[heapq.heappop(heap)]
            if user in group:
                continue
            reason = self._fusion_obstacle(user, anchor.results[0], floats_only)
            if reason is None and is_for_reduction(user):
                reason = "it masks a reduction, which stops at the mask's end instead"
            if reason is not None:
                for value in user.operands:
                    if self._class.get(user) == "elementwise":
                        self._refuse(value, user, reason)
                break
            group = [*group, user]
            heap = list(heapq.merge(heap, self._users(user)))
            if self._has_one_escape(group):
                best = group
        for op in group[len(best) :]:
            for value in op.operands:
                self._refuse(value, op, "ops outside the kernel also read its operands")
        if len(group) == _MAX_GROUP:
            for user in map(self._ops.__getitem__, heap):
                for value in user.operands:
                    self._refuse(value, user, f"the kernel already has {_MAX_GROUP} ops, the maximum")
        return best

    def _users(self, op: ir.Operation) -> list[int]:
        owners = {use.owner.operation for result in op.results for use in result.uses}
        return sorted(self._position.get(owner, len(self._ops)) for owner in owners if owner in self._position)

    def _fusion_obstacle(self, op: ir.Operation, value: ir.Value, floats_only: bool) -> str | None:
        """The reason why an op cannot join a kernel with results like `value`; None if it can."""
        if self._class.get(op) != "elementwise":
            return f"{self._class.get(op) or 'other'} ops have separate kernels"
        if op in self._assigned:
            return "it is already in another kernel"
        reason = self._shape_obstacle(op, value, floats_only)
        return "it is decided to be apart" if reason is None and self._is_apart(op) else reason

    def _shape_obstacle(self, op: ir.Operation, value: ir.Value, floats_only: bool) -> str | None:
        like = ir.RankedTensorType(value.type)
        kind = ir.RankedTensorType(op.results[0].type)
        if list(kind.shape) != list(like.shape):
            return f"its shape is {_dims(kind)}, but the kernel's shape is {_dims(like)}"
        if not floats_only:
            return None
        types = {ir.RankedTensorType(value.type).element_type for value in [*op.operands, *op.results]}
        may_mix = self._mixes_floats and all(isinstance(item, ir.FloatType) for item in types)
        return None if may_mix or types == {like.element_type} else "its element types differ from those of the kernel"

    def _has_one_escape(self, group: list[ir.Operation]) -> bool:
        inside = set(group)
        return all(use.owner.operation in inside for op in group[:-1] for result in op.results for use in result.uses)

    def _producers(self, anchor: ir.Operation) -> list[ir.Operation]:
        """The elementwise ops of the anchor's input shape that feed only the anchor."""
        found: list[ir.Operation] = []
        pending = [anchor.operands[0]]
        while pending and len(found) < _MAX_GROUP:
            value = pending.pop()
            op = value.owner
            if isinstance(op, ir.Block) or op.operation in found:
                continue
            reason = self._fusion_obstacle(op.operation, anchor.operands[0], floats_only=True)
            if reason is None and any(use.owner.operation not in (anchor, *found) for use in value.uses):
                reason = "other ops also read its result"
            if reason is not None:
                # Fusion is only expected of elementwise ops, so only they get a reason.
                if self._class.get(op.operation) != "elementwise":
                    continue
                self._refuse(value, next(iter(value.uses)).owner.operation, reason)
                continue
            found.append(op.operation)
            pending.extend(op.operands)
        return found

    def _rows(self, anchor: ir.Operation, feeders: list[ir.Operation]) -> list[ir.Operation] | None:
        def free(position: int) -> ir.Operation | None:
            return None if self._ops[position] in self._assigned else self._ops[position]

        return rows_group(anchor, feeders, self._users, free, self._row_bytes) if self._row_bytes else None

    def _with_feeders(self, group: list[ir.Operation], are_widening: bool = False) -> list[ir.Operation]:
        """A group extended by the elementwise ops of its shape that feed only the group.

        Args:
            group: the ops.
            are_widening: whether to add only those that convert bytes, which are read faster than their results.
        """
        result, pending = group[-1].results[0], list(group)
        group = list(group)
        while pending and len(group) < _MAX_GROUP:
            for value in pending.pop().operands:
                op = None if isinstance(value.owner, ir.Block) else value.owner.operation
                if op is None or op in group or self._fusion_obstacle(op, result, floats_only=False) is not None:
                    continue
                if are_widening and not _widens_bytes(op):
                    continue
                if all(use.owner.operation in group for use in value.uses):
                    group.append(op)
                    pending.append(op)
        return group

    def _enlargements(self, group: list[ir.Operation]) -> list[ir.Operation]:
        """The resizes that enlarge images for this group only; the group can read the small images instead."""
        found: dict[ir.Value, ir.Operation] = {}
        for value in [operand for op in group for operand in op.operands]:
            op = value.owner
            if isinstance(op, ir.Block) or op.operation in self._assigned or len(list(value.uses)) != 1:
                continue
            if op.operation in self._position and _repeats_rows(op.operation):
                found[value] = op.operation
        return list(found.values())

    def _with_views(self, anchor: ir.Operation) -> list[ir.Operation]:
        """Attention, with the movement ops folded into its reads of query, key and value and its writes."""
        before = [op for value in list(anchor.operands)[:3] for op in views_before(value, self._is_free)]
        return [*before, anchor, *views_after(anchor.results[0], self._is_free)]

    def _is_free(self, op: ir.Operation) -> bool:
        return op in self._position and op not in self._assigned

    def _is_free_slice(self, op: ir.Operation) -> bool:
        """Returns whether an op is free and leaves the order of elements alone, as transposes do not."""
        return self._is_free(op) and op.name != TransposeOp.OPERATION_NAME

    def _concat_chain(self, anchor: ir.Operation) -> list[ir.Operation]:
        """The concats along the same axis that feed only this one."""
        found: list[ir.Operation] = []
        for value in anchor.operands:
            op = value.owner
            if isinstance(op, ir.Block) or op.name != anchor.name or len(list(value.uses)) != 1:
                continue
            if op.attributes["axis"] == anchor.attributes["axis"] and op.operation not in self._assigned:
                found += [*self._concat_chain(op.operation), op.operation]
        return found


def _dims(kind: ir.RankedTensorType) -> str:
    return "x".join(map(str, kind.shape)) or "scalar"


def _sums_widely(op: ir.Operation) -> bool:
    """Returns whether an op sums products of bytes, pairs of bfloat16, or float32 and short floats in 32-bit lanes.

    Consumers of the sums have as many lanes, whatever type they store.
    """
    if len(op.operands) < 2:
        return False
    kinds = [str(ir.RankedTensorType(value.type).element_type) for value in op.operands]
    has_pairs = {*kinds} == {"bf16"} and "grain" in op.attributes and ir.IntegerAttr(op.attributes["grain"]).value > 1
    is_widened = "panel" in op.attributes and kinds in (["f32", "f16"], ["f32", "bf16"])
    return {*kinds} <= _BYTES or has_pairs or is_widened


def _widens_bytes(op: ir.Operation) -> bool:
    """Returns whether an elementwise op is a step of a dequantisation: it reads bytes and single values."""
    while op.operands and all(size_of(value) == 1 for value in list(op.operands)[1:]):
        value = op.operands[0]
        if str(ir.RankedTensorType(value.type).element_type) in _BYTES:
            return True
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
    return False


def _repeats_rows(op: ir.Operation) -> bool:
    """Returns whether an op is a resize whose result consists of whole rows of its operand."""
    if op.name != ResizeOp.OPERATION_NAME:
        return False
    resize = ResizeOp(op)
    return resize.mode == "nearest" and np.asarray(resize.scales)[-1] == 1


def inputs_of(group: Sequence[ir.Operation]) -> list[ir.Value]:
    """The values that a group reads but does not define, each once, in order of first use."""
    inside = set(group)
    seen: dict[ir.Value, None] = {}
    for op in group:
        for value in op.operands:
            if isinstance(value.owner, ir.Block) or value.owner.operation not in inside:
                seen.setdefault(value)
    return list(seen)
