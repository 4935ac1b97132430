"""`stepwell-share-out-loops`: makes kernels functions of a range of blocks, so that threads can share them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, scf

from ...dialects import discardable
from ...dialects.symbols import callee_of, symbol_of
from ...machines.paces import paces_of
from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import dictionaries
from ...passes.ir.named_ops import ops_named
from ...passes.ir.parallel import trip_counts
from ...passes.ir.values import constant_index
from ..target import Target
from .choose_parallel_loops import microseconds
from .needed_rounds import needed_rounds
from .segments import Segment, phases_of

MOST_BLOCKS = (1 << 20) - 1
"""Maximum number of blocks, limited by the word by which threads claim blocks."""


@register
@dataclass(frozen=True)
class ShareOutLoopsPass(Pass):
    """Number the blocks of work in kernels, and let the caller choose the range of blocks to execute.

    Parts of a kernel that depend on each other are phases. The iterations of the largest parallel loop of a phase
    are its blocks, which may run in any order and concurrently; `stepwell.phases` holds the end of each phase. A
    smaller loop does a proportional part of its iterations, and indivisible work belongs to one block. Calls of
    several blocks are marked `stepwell.shared`, unless all of them together take too little time, as a function of the
    machine's time to hand work over. If that time is too short to wake sleeping workers, the module is marked
    `stepwell.is_short`: only workers that are awake take part.

    A loop whose iterations need a workspace has at most as many blocks as the workspace has slots. A call takes the
    slot with the number of its first block, so concurrent calls use different slots, and a call of all blocks uses
    one.

        func.func private @k(%x: memref<..>, %out: memref<..>) { scf.forall (%i, %j) in (4, 8) {...} }
        call @k(%x, %out)
        -->
        func.func private @k(%x: memref<..>, %out: memref<..>, %first: index, %last: index)
          attributes {stepwell.phases = array<i64: 32>} {
          scf.for %block = %first to %last step %c1 { %i = arith.divui %block, %c8 ... } }
        call @k(%x, %out, %c0, %c32) {stepwell.shared}

    Kernels without parallel loops, and those that cannot be divided, keep their signature, with sequential loops. A
    declaration that has `stepwell.phases` (its code was compiled before) gets the arguments too.

    Preconditions: bufferised, workspaces planned.

    Attributes:
        target: machine that the kernels are for, in the form that `Target.parse` accepts.
    """

    name = "stepwell-share-out-loops"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the kernels and the calls in `@main`."""
        machine = Target.parse(self.target).machine
        paces = paces_of(machine)
        phases: dict[str, list[int]] = {}
        times: dict[str, float] = {}
        for function in list(op.regions[0].blocks[0]):
            if isinstance(function, func.FuncOp) and symbol_of(function) != "main":
                ends = _declared(function) if function.is_external else _divide(function)
                phases |= {symbol_of(function): ends} if ends else {}
                times[symbol_of(function)] = microseconds(function.operation, machine) / max(1, len(ends))
        for function in list(op.regions[0].blocks[0]):
            if isinstance(function, func.FuncOp) and symbol_of(function) == "main":
                _call_by_phase(function, phases)
                shared = [call for call in ops_named(function, "func.call") if discardable.SHARED.is_on(call)]
                total = sum(times[callee_of(call)] for call in shared)
                if 1e3 * total < paces.woken_ns:
                    discardable.IS_SHORT.write(op, True)
                for call in shared if 1e3 * total < paces.shared_ns else ():
                    discardable.SHARED.remove(call)


def _declared(kernel: func.FuncOp) -> list[int]:
    ends = discardable.PHASES.read(kernel)
    if ends is None:
        return []
    _add_arguments(kernel)
    return list(ends)


def _divide(kernel: func.FuncOp) -> list[int]:
    """Makes a kernel a function of a range of blocks; returns the ends of its phases, [] if it is unchanged."""
    found = ops_named(kernel, "scf.forall")
    loops = [op for op in found if op.parent is not None and op.parent.operation == kernel.operation]
    for loop in found:
        if loop not in loops:
            _make_sequential(loop)
    if not loops:
        return []
    phases = phases_of(kernel.operation)
    if phases is None or max(map(_blocks, phases)) < 2:
        for loop in loops:
            _make_sequential(loop)
        return []
    first, last = _add_arguments(kernel)
    assert first is not None and last is not None
    start, ends = 0, []
    for phase in phases:
        count = _blocks(phase)
        with phase[0].op.location, ir.InsertionPoint(phase[0].op):
            whole = len(phases) == 1
            here = (first, last) if whole else (_clamp(first, start, count), _clamp(last, start, count))
        _distribute(phase, here, count)
        start += count
        ends.append(start)
    if start > MOST_BLOCKS:
        raise PassError(f"kernel @{symbol_of(kernel)} has {start} blocks, more than {MOST_BLOCKS}", kernel.location)
    discardable.PHASES.write(kernel.operation, ends)
    return ends


def _blocks(phase: Sequence[Segment]) -> int:
    """Returns the number of blocks of a phase: the greater of its largest loop and its other ops, at most the slots."""
    count = max(max(item.blocks for item in phase), sum(item.blocks == 1 for item in phase))
    slots = [discardable.SLOTS.required(item.op) for item in phase if discardable.SLOTS.is_on(item.op)]
    return min([count, *slots])


def _clamp(position: ir.Value, start: int, count: int) -> ir.Value:
    """Returns the index of a kernel's block among the blocks of a phase."""
    inside = arith.MinUIOp(arith.MaxUIOp(position, constant_index(start)).result, constant_index(start + count)).result
    return arith.SubIOp(inside, constant_index(start)).result


def _distribute(phase: Sequence[Segment], here: tuple[ir.Value, ir.Value], count: int) -> None:
    """Restricts each segment to its part of the blocks from `here[0]` to `here[1]` of `count`.

    A loop with fewer iterations than blocks does a proportional part of them, so that every part of the blocks is
    about the same part of every loop. Indivisible work belongs to a block of its own.
    """
    single = [item for item in phase if item.blocks == 1]
    for segment in phase:
        with segment.op.location, ir.InsertionPoint(segment.op):
            if segment.op.name == "scf.forall":
                _take_slot(segment.op, here[0])
                counts = needed_rounds(segment.op)
                rounds = _product(counts) if any(isinstance(item, ir.Value) for item in counts) else segment.blocks
                start, end = (_scaled(position, rounds, count) for position in here)
                _loop_over_blocks(segment.op, start, end, counts)
            else:
                _guard(segment.ops, *here, (2 * single.index(segment) + 1) * count // (2 * len(single)))


def _scaled(position: ir.Value, rounds: int | ir.Value, count: int) -> ir.Value:
    """Returns position * rounds / count."""
    if isinstance(rounds, int) and rounds == count:
        return position
    return arith.DivUIOp(arith.MulIOp(position, _value(rounds)).result, constant_index(count)).result


def _product(counts: Sequence[int | ir.Value]) -> ir.Value:
    total = _value(counts[0])
    for count in counts[1:]:
        total = arith.MulIOp(total, _value(count)).result
    return total


def _value(number: int | ir.Value) -> ir.Value:
    return constant_index(number) if isinstance(number, int) else number


def _guard(ops: Sequence[ir.Operation], first: ir.Value, last: ir.Value, block: int) -> None:
    """Executes `ops` only if their block is between `first` and `last`."""
    number = constant_index(block)
    reached = arith.CmpIOp(arith.CmpIPredicate.ule, first, number).result
    contained = arith.AndIOp(reached, arith.CmpIOp(arith.CmpIPredicate.ult, number, last).result).result
    with ir.InsertionPoint(scf.IfOp(contained).then_block):
        end_of_branch = scf.YieldOp([])
    for op in ops:
        op.move_before(end_of_branch.operation)


def _take_slot(loop: ir.Operation, number: ir.Value) -> None:
    """Moves the views of the workspace in a loop to the slot with a number."""
    if not discardable.SLOTS.is_on(loop):
        return
    for view in [op for op in ops_named(loop, "memref.view") if discardable.SLOT_BYTES.is_on(op)]:
        size = discardable.SLOT_BYTES.required(view)
        with view.location, ir.InsertionPoint(view):
            view.operands[1] = arith.AddIOp(view.operands[1], arith.MulIOp(number, constant_index(size)).result).result


def _loop_over_blocks(op: ir.Operation, first: ir.Value, last: ir.Value, counts: Sequence[int | ir.Value]) -> None:
    """Converts a parallel loop to a loop over a range of blocks.

    scf.forall (%i, %j) in (4, 8) {...} --> scf.for %block = %first to %last {%i = %block / 8 ...}
    """
    loop = scf.ForOp(first, last, constant_index(1))
    with ir.InsertionPoint(loop.body):
        _move_body(op, _coordinates(loop.induction_variable, counts))
        scf.YieldOp([])
    op.erase()


def _make_sequential(loop: ir.Operation) -> None:
    """Converts scf.forall (%i, %j) in (4, 8) {...} --> scf.for %block = 0 to 32 {...}"""
    with loop.location, ir.InsertionPoint(loop):
        counts = trip_counts(loop)
        _loop_over_blocks(loop, constant_index(0), constant_index(math.prod(counts)), counts)


def _coordinates(block: ir.Value, counts: Sequence[int | ir.Value]) -> list[ir.Value]:
    """Returns the position of a block along each dimension, the last dimension fastest."""
    found = []
    for dim, count in reversed(list(enumerate(counts))):
        if dim == 0:
            found.append(block)
            break
        size = _value(count)
        found.append(arith.RemUIOp(block, size).result)
        block = arith.DivUIOp(block, size).result
    return found[::-1]


def _move_body(loop: ir.Operation, coordinates: Sequence[ir.Value]) -> None:
    """Moves the body of an scf.forall to the insertion point."""
    body = loop.regions[0].blocks[0]
    lower, step = (list(ir.DenseI64ArrayAttr(loop.attributes[f"static{name}"])) for name in ("LowerBound", "Step"))
    for argument, position, offset, scale in zip(body.arguments, coordinates, lower, step, strict=True):
        value = arith.MulIOp(position, constant_index(scale)).result if scale != 1 else position
        argument.replace_all_uses_with(arith.AddIOp(value, constant_index(offset)).result if offset else value)
    anchor = arith.ConstantOp(ir.IndexType.get(), 0).operation
    for op in list(body.operations)[:-1]:
        op.operation.move_before(anchor)
    anchor.erase()


def _call_by_phase(main: func.FuncOp, phases: dict[str, list[int]]) -> None:
    for call in ops_named(main, "func.call"):
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"])
        start = 0
        for end in phases.get(callee.value, ()):
            with call.location, ir.InsertionPoint(call):
                made = func.CallOp([], callee, [*call.operands, constant_index(start), constant_index(end)]).operation
            for attribute in (discardable.STEP, discardable.OPS):
                attribute.copy(call, made)
            if end - start > 1:
                discardable.SHARED.write(made, True)
            start = end
        if callee.value in phases:
            call.erase()


def _add_arguments(kernel: func.FuncOp) -> list[ir.Value | None]:
    index = ir.IndexType.get()
    attributes = kernel.operation.attributes
    arguments = [*dictionaries(kernel, "arg_attrs"), ir.DictAttr.get({}), ir.DictAttr.get({})]
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*kernel.type.inputs, index, index], []))
    attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
    if kernel.is_external:
        return [None, None]
    return [kernel.entry_block.add_argument(index, kernel.location) for _ in range(2)]
