"""`stepwell-plan-workspaces`: moves temporaries that kernels would allocate into the arena."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from mlir import ir
from mlir.dialects import arith, func, memref

from ...dialects import discardable
from ...dialects.symbols import callee_of, symbol_of
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.memory_layout import byte_size
from ..ir.named_ops import ops_named
from ..ir.parallel import trip_counts
from ..ir.values import i64
from . import arena

# Maximum number of slots of a parallel loop, and maximum total size of its slots in bytes.
_MOST_SLOTS, _MOST_BYTES = 8, 16 << 20


@register
@dataclass(frozen=True)
class PlanWorkspacesPass(Pass):
    """Replace allocations in kernels by a last argument for temporaries, placed in the arena of `@main`.

        func.func private @k(%out: memref<4xf32>) { %0 = memref.alloc() : memref<99999xf32> ... }
        -->
        func.func private @k(%out: memref<4xf32>, %workspace: memref<400000xi8>)
          attributes {stepwell.workspace_bytes = 400000} { %0 = memref.view %workspace[%c0][] ... }

    The workspace is placed where the arena is free during the call, or after everything else. If that takes less
    memory, the whole arena is planned again together with the workspaces. A declaration with
    `stepwell.workspace_bytes`, of a kernel that is already compiled, gets the argument too.

    Temporaries in a parallel loop get one slot for each of a few threads: the loop has `stepwell.slots` and
    `stepwell.slot_bytes`; the views inside have the latter and refer to the first slot. Stack temporaries that a
    parallel loop shares with other parts of the kernel also become workspace.

    Attributes:
        reuse: whether a workspace may be placed where the arena is free during the call.

    Preconditions: `stepwell-plan-memory` has run, kernels are bufferised. Temporaries have static shapes.
    """

    name = "stepwell-plan-workspaces"
    reuse: bool = True

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the kernels that allocate memory, and their calls."""
        symbols = ir.SymbolTable(op)
        is_library = discardable.LIBRARY.is_on(op)
        if "main" not in symbols and not is_library:
            raise PassError("there is no function @main")
        sizes = {}
        for function in list(op.regions[0].blocks[0]):
            if isinstance(function, func.FuncOp) and symbol_of(function) != "main":
                size = _take_workspace(function)
                sizes |= {symbol_of(function): size} if size else {}
        if is_library:
            return
        if sizes:
            _pass_workspaces(op, cast(func.FuncOp, symbols["main"]), sizes, self.reuse)
        for view in _movable(symbols["main"].operation):
            discardable.BUFFER.remove(view)


def _take_workspace(kernel: func.FuncOp) -> int:
    """Moves the temporaries of a kernel to a new last argument; returns its size in bytes, 0 without temporaries."""
    if kernel.is_external:
        size = discardable.WORKSPACE_BYTES.read(kernel, 0)
        if size:
            _add_argument(kernel, size)
        return size
    allocations = list(_allocations(kernel))
    if not allocations:
        return 0
    owners = [_owner(allocation, kernel) for allocation in allocations]
    offsets, size = [0] * len(allocations), 0
    for first, owner in enumerate(owners):
        if owner in owners[:first]:
            continue
        start = size
        for number, allocation in enumerate(allocations):
            if owners[number] == owner:
                offsets[number] = size
                size += arena.align(byte_size(allocation.results[0].type))
        if owner != kernel.operation:
            size = start + _add_slots(owner, size - start) * (size - start)
    discardable.WORKSPACE_BYTES.write(kernel, size)
    workspace = _add_argument(kernel, size)
    for allocation, owner, offset in zip(allocations, owners, offsets, strict=True):
        with allocation.location, ir.InsertionPoint(allocation):
            start = arith.ConstantOp(ir.IndexType.get(), offset).result
            view = memref.ViewOp(allocation.results[0].type, workspace, start, [])
        discardable.SLOT_BYTES.copy(owner, view)
        allocation.results[0].replace_all_uses_with(view.result)
        allocation.erase()
    return size


def _owner(op: ir.Operation, kernel: func.FuncOp) -> ir.Operation:
    """The outermost parallel loop around an op; the kernel if there is none."""
    found, parent = kernel.operation, op.parent
    while parent is not None and parent.operation != kernel.operation:
        if parent.operation.name == "scf.forall":
            found = parent.operation
        parent = parent.operation.parent
    return found


def _add_slots(loop: ir.Operation, size: int) -> int:
    """Records on a loop how many slots of `size` bytes it has; returns their number."""
    slots = max(1, min(math.prod(trip_counts(loop)), _MOST_SLOTS, _MOST_BYTES // max(1, size)))
    discardable.SLOTS.write(loop, slots)
    discardable.SLOT_BYTES.write(loop, size)
    return slots


def _allocations(kernel: func.FuncOp) -> Iterator[ir.Operation]:
    for op in ops_named(kernel, "memref.alloc", "memref.alloca", "memref.dealloc"):
        if op.name == "memref.dealloc":
            op.erase()
        elif op.name == "memref.alloc" or _is_shared(op, kernel):
            yield op


def _is_shared(allocation: ir.Operation, kernel: func.FuncOp) -> bool:
    """Returns whether an allocation passes data between parts of a kernel, one of which is a parallel loop."""
    if allocation.parent is None or allocation.parent.operation != kernel.operation:
        return False
    users: list[ir.Operation] = []
    views = [allocation]
    while views:
        for use in views.pop().results[0].uses:
            user = use.owner.operation
            if len(user.results) and isinstance(user.results[0].type, ir.MemRefType):
                views.append(user)
            outer = user
            while outer.parent is not None and outer.parent.operation != kernel.operation:
                outer = outer.parent.operation
            if outer not in users and (len(outer.regions) or not len(outer.results)):
                users.append(outer)
    return len(users) > 1 and any(user.name == "scf.forall" for user in users)


def _add_argument(kernel: func.FuncOp, size: int) -> ir.Value | None:
    kind = _bytes_type(size)
    types = [*kernel.type.inputs, kind]
    attributes = kernel.operation.attributes
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    own = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
    attributes["arg_attrs"] = ir.ArrayAttr.get([*ir.ArrayAttr(attributes["arg_attrs"]), own])
    return None if kernel.is_external else kernel.entry_block.add_argument(kind, kernel.location)


def _pass_workspaces(module: ir.Operation, main: func.FuncOp, sizes: dict[str, int], reuse: bool) -> None:
    rows = discardable.LIFETIMES.required(module)
    planned = [_placement(row) for row in rows]
    calls = [call for call in ops_named(main, "func.call") if callee_of(call) in sizes]
    wanted = [
        arena.Lifetime(sizes[callee_of(call)], step, step) for call, step in zip(calls, map(_step, calls), strict=True)
    ]
    if reuse:
        placed = _placed(planned, wanted, is_movable=bool(_movable(main.operation)))
    else:
        placed = _placed_after(planned, wanted)
    for view in _movable(main.operation):
        number = discardable.BUFFER.required(view)
        _move(view, placed[number].offset - planned[number].offset)
    rows = [_moved(row, item) for row, item in zip(rows, placed, strict=False)]
    block_of_bytes = main.entry_block.arguments[len(main.entry_block.arguments) - 1]
    for call, placement in zip(calls, placed[len(planned) :], strict=True):
        rows.append(_row(f"{callee_of(call)}.workspace", placement))
        with call.location, ir.InsertionPoint(call):
            start = arith.ConstantOp(ir.IndexType.get(), placement.offset).result
            view = memref.ViewOp(_bytes_type(placement.lifetime.size), block_of_bytes, start, []).result
            made = func.CallOp([], ir.FlatSymbolRefAttr(call.attributes["callee"]), [*call.operands, view])
            discardable.STEP.copy(call, made)
        call.erase()
    total = arena.arena_size(placed)
    block_of_bytes.set_type(_bytes_type(total))
    types = [item.type for item in main.entry_block.arguments]
    main.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    discardable.LIFETIMES.write(module, rows)
    discardable.ARENA_BYTES.write(module, total)
    discardable.ARENA_LOWER_BOUND.write(module, arena.lower_bound(item.lifetime for item in placed))


def _placed(planned: list[arena.Placement], wanted: list[arena.Lifetime], *, is_movable: bool) -> list[arena.Placement]:
    """Places workspaces around the planned buffers, or everything anew if that takes less memory."""
    placed, around = list(planned), arena.Arena(len(planned) + len(wanted))
    for item in planned:
        around.hold(item)
    placed += [arena.Placement(lifetime, around.add(lifetime)) for lifetime in wanted]
    lifetimes = [item.lifetime for item in placed]
    if not is_movable or arena.arena_size(placed) == arena.lower_bound(lifetimes):
        return placed
    return min(placed, arena.place(lifetimes), key=arena.arena_size)


def _placed_after(planned: list[arena.Placement], wanted: list[arena.Lifetime]) -> list[arena.Placement]:
    """Places workspaces after everything that is already planned."""
    start = arena.arena_size(planned)
    apart = arena.place_apart(wanted)
    return [*planned, *(arena.Placement(item.lifetime, start + item.offset) for item in apart)]


def _movable(main: ir.Operation) -> list[ir.Operation]:
    """The views of the arena that are labelled with their buffer."""
    return [op for op in ops_named(main, "memref.view") if discardable.BUFFER.is_on(op)]


def _move(view: ir.Operation, distance: int) -> None:
    """Shifts a view of the arena by a distance in bytes."""
    if not distance:
        return
    start = view.operands[1]
    with view.location, ir.InsertionPoint(view):
        if start.owner.name == "arith.constant":
            offset = ir.IntegerAttr(start.owner.attributes["value"]).value + distance
            view.operands[1] = arith.ConstantOp(ir.IndexType.get(), offset).result
            return
        step = arith.ConstantOp(ir.IndexType.get(), distance).result
        view.operands[1] = arith.AddIOp(start, step).result


def _step(call: ir.Operation) -> int:
    return discardable.STEP.required(call)


def _moved(row: ir.DictAttr, item: arena.Placement) -> ir.DictAttr:
    return ir.DictAttr.get({entry.name: entry.attr for entry in row} | {"offset": i64(item.offset)})


def _placement(row: ir.DictAttr) -> arena.Placement:
    size, first, last, offset = (ir.IntegerAttr(row[name]).value for name in ("bytes", "first", "last", "offset"))
    return arena.Placement(arena.Lifetime(size, first, last), offset)


def _row(name: str, item: arena.Placement) -> ir.DictAttr:
    lifetime = item.lifetime
    numbers = {"offset": item.offset, "bytes": lifetime.size, "first": lifetime.first, "last": lifetime.last}
    return ir.DictAttr.get({"name": ir.StringAttr.get(name)} | {key: i64(value) for key, value in numbers.items()})


def _bytes_type(size: int) -> ir.MemRefType:
    return ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
