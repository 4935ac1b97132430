"""`stepwell-bound-loops`: ends the loops of kernels at the sizes of a call."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from ...dialects import discardable
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, class_of, computed_extents
from ...passes.ir.rewriting import walk
from ...passes.ir.values import constant_index, integer_of
from ..builders.linear_forms import LinearForm
from .bound_keys import bound_keys, is_along_keys
from .fill_beyond import fill_beyond
from .limits import Limit, end_of, guard, is_row_needed
from .needed_rounds import note_rounds
from .positions import WRITES, Position, is_local, linear_of, positions, root_of, split
from .skip_masked import assume_kept, skip_masked

_Move = tuple[Position, int, LinearForm]
"""The movement of a write with a loop index: the dimensions, the distance per step, and the start."""

_KNOWN = ("arith.", "math.", "affine.", "vector.", "scf.", "memref.", "index.", "ub.", "llvm.call_intrinsic")


@register
@dataclass(frozen=True)
class BoundLoopsPass(Pass):
    """End loops over a kernel's result where it is no longer needed, by the table of extents at run time.

    `stepwell.extents` holds the table entry for each dimension of the result, -1 if all of it is needed. A tile
    that reaches beyond is computed as a whole. Iterations of parallel loops, and of loops over several dimensions
    at once, are skipped.

        func.func private @k(%x: memref<..>, %table: memref<256xi64>, %out: memref<64x16xf32>)
          attributes {stepwell.extents = array<i64: 3, -1>} { scf.for %i = %c0 to %c64 step %c4 {...} }
        -->
        %extent = memref.load %table[%c3]
        %end = arith.minsi %c64, %extent
        scf.for %i = %c0 to %end step %c4 {...}

    `stepwell.kept` holds the entry for each dimension along which the result is 0 beyond the data: loops end there,
    and the needed rest is filled with zeros afterwards.

    `stepwell.skipped` lists dimensions of arguments that a reduction reads through a mask: argument, dimension,
    entry. Its loops end where the mask does, and need not read the masks that `stepwell.masks` lists.

    Preconditions: bufferised; parallel loops are still `scf.forall`.
    """

    name = "stepwell-bound-loops"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every kernel that has the attribute of needed extents."""
        for function in [item.operation for item in op.regions[0].blocks[0].operations]:
            if discardable.EXTENTS.is_on(function) and len(function.regions[0].blocks):
                _Bounder(function).run()


@dataclass(frozen=True)
class _Target:
    """Memory that loops write, and its table entry along each dimension, -1 for the whole dimension."""

    root: ir.Value
    shape: Sequence[int]
    ends: Sequence[int]


class _Bounder:
    def __init__(self, kernel: ir.Operation) -> None:
        self._kernel = kernel
        self._body = body_of(kernel)
        number = discardable.TABLE_ARGUMENT.required(kernel)
        self._table = self._body.arguments[number]
        self._destination = self._body.arguments[number + 1]
        self._shape = list(ir.MemRefType(self._destination.type).shape)
        self._entries = discardable.EXTENTS.required(kernel)
        self._ends = computed_extents(kernel)
        self._is_attention = discardable.KERNEL.is_on(kernel) and class_of(kernel) == "attention"
        self._own = _Target(self._destination, self._shape, self._ends)
        self._extents: dict[int, ir.Value] = {}
        self._bounded: set[int] = set()
        self._reasons: list[str] = []

    def run(self) -> None:
        loops = [op for op in walk(self._kernel) if op.name in ("scf.for", "scf.forall")]
        # Inner loops first: guards move the rest of a loop's body.
        for loop in reversed(loops):
            if loop.name == "scf.for" and not len(loop.results):
                self._bound_for(loop)
            elif discardable.TILES.is_on(loop):
                self._bound_tiles(loop)
            elif loop.name == "scf.forall":
                self._bound_forall(loop)
        self._record_unbounded()
        if discardable.KEPT.is_on(self._kernel):
            self._fill_beyond()
        if discardable.KEYS.is_on(self._kernel):
            entry, count = discardable.KEYS.required(self._kernel)
            bound_keys(self._kernel, count, self._extent(entry))
        skipped = discardable.SKIPPED.read(self._kernel)
        if skipped is not None:
            self._skip_masked(skipped)

    def _record_unbounded(self) -> None:
        """Records the varying dimensions along which the kernel computes everything, and why."""
        reason = "; ".join(dict.fromkeys(self._reasons)) or "no loop runs along it alone"
        texts = list(discardable.UNBOUNDED.read(self._kernel, ()))
        texts += [
            f"dimension {axis} of {'x'.join(map(str, self._shape))}: {reason}"
            for axis, end in enumerate(self._ends)
            if end >= 0 and axis not in self._bounded and self._shape[axis] != 1
        ]
        if texts:
            discardable.UNBOUNDED.write(self._kernel, texts)

    def _fill_beyond(self) -> None:
        """Fills the needed part of the result beyond the computed part with zeros."""
        ends = [None if end < 0 else self._extent(end) for end in self._ends]
        needed = [None if entry < 0 else self._extent(entry) for entry in self._entries]
        returned = list(self._body.operations)[-1]
        with returned.location, ir.InsertionPoint(returned):
            fill_beyond(self._destination, ends, needed)

    def _skip_masked(self, skipped: Sequence[int]) -> None:
        exact: dict[int, list[ir.Operation]] = {}
        for number, axis, entry in zip(skipped[::3], skipped[1::3], skipped[2::3], strict=True):
            value, extent = self._body.arguments[number], functools.partial(self._extent, entry)
            exact.setdefault(entry, []).extend(skip_masked(self._kernel, value, axis, extent))
        masks = discardable.MASKS.read(self._kernel, ())
        for number, entry in zip(masks[::2], masks[1::2], strict=True):
            assume_kept(self._body.arguments[number], exact.get(entry, []))

    def _bound_for(self, loop: ir.Operation) -> None:
        places = self._places(loop, loop.regions[0].blocks[0].arguments[0])
        step = integer_of(loop.operands[2])
        if places is None or step is None:
            return
        target, position, factor, base = places
        for limit in self._limits(target, position.dims):
            with loop.location, ir.InsertionPoint(loop):
                if limit.is_outermost:
                    most = arith.MulIOp(limit.extent, constant_index(limit.inner)).result
                    rounds = end_of(most, base, factor)
                    loop.operands[1] = arith.MinSIOp(loop.operands[1], rounds).result
            if not limit.is_outermost and step * factor < limit.size * limit.inner:
                with loop.location, ir.InsertionPoint.at_block_begin(loop.regions[0].blocks[0]):
                    index = loop.regions[0].blocks[0].arguments[0]
                    is_needed = is_row_needed(limit, index, factor, base, step)
                guard(loop, is_needed)

    def _bound_forall(self, loop: ir.Operation) -> None:
        block = loop.regions[0].blocks[0]
        steps = list(ir.DenseI64ArrayAttr(loop.attributes["staticStep"]))
        conditions: list[ir.Value] = []
        for index, step in zip(block.arguments, steps, strict=False):
            places = self._places(loop, index)
            if places is None:
                continue
            target, position, factor, base = places
            limits = self._limits(target, position.dims)
            if len(limits) == 1 and limits[0].is_outermost:
                with loop.location, ir.InsertionPoint(loop):
                    most = arith.MulIOp(limits[0].extent, constant_index(limits[0].inner)).result
                    note_rounds(loop, index.arg_number, end_of(most, base, factor))
            with loop.location, ir.InsertionPoint.at_block_begin(block):
                for limit in limits:
                    if limit.is_outermost:
                        most = arith.MulIOp(limit.extent, constant_index(limit.inner)).result
                        rounds = end_of(most, base, factor)
                        conditions.append(arith.CmpIOp(arith.CmpIPredicate.slt, index, rounds).result)
                    elif step * factor < limit.size * limit.inner:
                        conditions.append(is_row_needed(limit, index, factor, base, step))
        if not conditions:
            return
        last = max(conditions, key=lambda value: list(block.operations).index(value.owner))
        with loop.location, ir.InsertionPoint.after(last.owner):
            is_needed = conditions[0]
            for other in conditions[1:]:
                is_needed = arith.AndIOp(is_needed, other).result
        guard(loop, is_needed)

    def _bound_tiles(self, loop: ir.Operation) -> None:
        """Ends a loop over all tiles of the result, in row-major order, at their number in a call."""
        with loop.location, ir.InsertionPoint(loop):
            total = constant_index(1)
            for axis, (size, end, tile) in enumerate(
                zip(self._shape, self._ends, discardable.TILES.required(loop), strict=True)
            ):
                extent = constant_index(size)
                if end >= 0:
                    extent = arith.MinSIOp(extent, self._extent(end)).result
                    self._bounded.add(axis)
                total = arith.MulIOp(total, arith.CeilDivSIOp(extent, constant_index(tile)).result).result
            note_rounds(loop, 0, total)
        block = loop.regions[0].blocks[0]
        with loop.location, ir.InsertionPoint.at_block_begin(block):
            is_needed = arith.CmpIOp(arith.CmpIPredicate.slt, block.arguments[0], total).result
        guard(loop, is_needed)

    def _limits(self, target: _Target, dims: Sequence[int]) -> list[Limit]:
        found = []
        real = [axis for axis in dims if target.shape[axis] != 1]
        for place, axis in enumerate(real):
            if target.ends[axis] >= 0:
                inner = math.prod(target.shape[other] for other in real[place + 1 :])
                if target == self._own:
                    self._bounded.add(axis)
                found.append(Limit(self._extent(target.ends[axis]), target.shape[axis], inner, place == 0))
        return found

    def _extent(self, entry: int) -> ir.Value:
        if entry not in self._extents:
            with self._kernel.location, ir.InsertionPoint.at_block_begin(self._body):
                number = memref.LoadOp(self._table, [constant_index(entry)]).result
                self._extents[entry] = arith.IndexCastOp(ir.IndexType.get(), number).result
        return self._extents[entry]

    def _places(self, loop: ir.Operation, index: ir.Value) -> tuple[_Target, Position, int, LinearForm] | None:
        """Returns the target that all writes of a loop move along with an index: dimensions, distance and start."""
        found: tuple[_Target, Position, int, LinearForm] | None = None
        local: dict[ir.Value, bool] = {}  # Many writes have the same root, which has many uses.

        def is_own(root: ir.Value) -> bool:
            if root not in local:
                local[root] = is_local(root, loop)
            return local[root]

        for op in walk(loop):
            if op.name not in WRITES:
                if not op.name.startswith(_KNOWN):
                    return self._refuse(f"the memory that {op.name} writes is unknown")
                continue
            root = root_of(op.operands[1])
            target = self._own if root == self._destination else self._workspace(root)
            if target is None or (target != self._own and is_own(root)):
                if not is_own(root):
                    return self._refuse("later iterations read what its iterations write")
                continue
            here = self._place(op, target.root, loop, index)
            if here is None or (found is not None and (found[0] != target or _differ(found[1:], here))):
                return self._refuse("its iterations write to indices that are not a simple function of the loop index")
            if found is None or here[2][0] < found[3][0]:
                found = target, *here
        return found

    def _workspace(self, root: ir.Value) -> _Target | None:
        """Returns an attention's buffer of all keys or values, [batch, heads, keys, 1, depth]; None for others."""
        shape = list(ir.MemRefType(root.type).shape)
        is_like = len(shape) >= len(self._shape) and shape[0] == self._shape[0]
        if not self._is_attention or not is_like or isinstance(root.owner, ir.Block):
            return None
        ends = [self._ends[0], *[-1] * (len(shape) - 1)]
        if discardable.KEYS.is_on(self._kernel):
            entry, count = discardable.KEYS.required(self._kernel)
            if is_along_keys(root, count):
                ends[-3] = entry
        return _Target(root, shape, ends) if max(ends) >= 0 else None

    def _refuse(self, reason: str) -> None:
        self._reasons.append(reason)

    def _place(self, op: ir.Operation, root: ir.Value, loop: ir.Operation, index: ir.Value) -> _Move | None:
        rank = ir.MemRefType(op.operands[1].type).rank
        given = list(op.operands)[2 : 2 + rank]
        indices = [linear_of(value) for value in given] or [(0, ())] * rank
        where = positions(op.operands[1], indices, root)
        moved = []
        for position in where or ():
            own, base = split(position.index, loop, index, given)
            if own is None:
                return None
            if own:
                moved.append((position, own, base))
        return moved[0] if len(moved) == 1 else None


def _differ(one: _Move, other: _Move) -> bool:
    """Returns whether two writes move differently."""
    return (one[0].dims, one[1], set(one[2][1])) != (other[0].dims, other[1], set(other[2][1]))
