"""`stepwell-plan-memory`: assigns every tensor of `@main` memory, and converts the signatures of kernels to memrefs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from mlir import ir
from mlir.dialects import arith, func, memref, scf

from ...dialects import discardable
from ...dialects.types import array_of, dense
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import dictionaries, functions_with_bodies, main_function
from ..ir.memory_layout import byte_size, element_bytes, memref_type, strided_type
from ..ir.named_ops import ops_named
from ..ir.values import i64, is_tensor
from ..kernel.versions import versions_of
from ..kernel.views import EXTRACT, INSERT, normal_strides, row_major
from . import arena
from .buffer_views import ALIASES, CONSTANTS, Buffer, BufferCopy, TensorLocation
from .buffers import BufferAnalysis
from .signature import convert_signature

ENTRY = "main"
_NO_CODE = ALIASES | CONSTANTS | {"tensor.empty", "stepwell.parameter", EXTRACT, INSERT}


@register
@dataclass(frozen=True)
class PlanMemoryPass(Pass):
    """Put the tensors of `@main` at planned offsets of one arena.

    `@main` takes its inputs, its outputs, the parameters in the order of the module's `stepwell.parameters`, and an
    arena of `stepwell.arena_bytes` bytes. Kernels write to their destinations; their bodies still work on tensors,
    ready for one-shot-bufferize. `stepwell.lifetimes` lists the offset and lifetime of every buffer in the arena. Views
    of buffers whose offsets may still change have the buffer's number as `stepwell.buffer`.

        %p = "stepwell.parameter"() {name = "w", ...} : () -> tensor<4xf32>
        %d = tensor.empty() : tensor<4xf32>
        %0 = call @k(%x, %p, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %e = tensor.empty() : tensor<4xf32>
        %1 = call @k(%0, %p, %e) : ...
        return %1
        -->
        func.func @main(%x: memref<4xf32>, %out: memref<4xf32>, %w: memref<4xf32>, %arena: memref<64xi8>) {
          %0 = memref.view %arena[%c0][] : memref<64xi8> to memref<4xf32>
          call @k(%x, %w, %0) : ...
          call @k(%0, %w, %out) : ...

    Slices are views; tensors inserted into a larger tensor are computed in place. A kernel argument with
    `stepwell.strides` becomes a strided memref whose first element is that of the view.

    A module marked `stepwell.library` contains only kernels.

    Attributes:
        reuse: whether tensors that are not alive at the same time may share memory.

    Preconditions: phase `kernels` or later; shapes are static; `@main` contains only calls of kernels, reshapes,
    slices, insertions of tensors computed in place, parameters, constants, scalars, scf.if and scf.for.
    """

    name = "stepwell-plan-memory"
    reuse: bool = True

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites `@main` and the signatures of the functions that it calls."""
        symbols = ir.SymbolTable(op)
        if discardable.LIBRARY.is_on(op):
            for function in functions_with_bodies(op):
                if not discardable.LAUNCH.is_on(function):
                    convert_signature(function)
            return
        if ENTRY not in symbols:
            raise PassError(f"there is no function @{ENTRY}")
        main = symbols[ENTRY].operation
        analysis = BufferAnalysis(main)
        buffers = analysis.arena_buffers()
        lifetimes = [arena.Lifetime(item.size, item.first, item.last) for item in buffers]
        placed = arena.place(lifetimes) if self.reuse else arena.place_apart(lifetimes)
        offsets = {buffer: item.offset for buffer, item in zip(buffers, placed, strict=True)}
        _describe(op, analysis.parameters, buffers, placed)
        numbers = {buffer: number for number, buffer in enumerate(buffers)} if self.reuse else {}
        versions = _versions(op)
        _MainRewriter(main, analysis, offsets, arena.arena_size(placed), numbers).run()
        for name in dict.fromkeys([*analysis.callees, *versions]):
            convert_signature(symbols[name].operation)


def _versions(module: ir.Operation) -> list[str]:
    """The kernels that the calls of @main may run, including versions."""
    calls = ops_named(main_function(module), "func.call")
    return [version for call in calls for version in versions_of(call)]


class _MainRewriter:
    """Writes the new `@main` next to the old one, then drops the old one."""

    def __init__(
        self,
        main: ir.Operation,
        analysis: BufferAnalysis,
        offsets: dict[Buffer, int],
        size: int,
        numbers: dict[Buffer, int],
    ) -> None:
        self._main, self._analysis, self._offsets, self._arena_bytes = main, analysis, offsets, size
        self._numbers = numbers
        self._scalars: dict[ir.Value, ir.Value] = {}
        self._arguments: dict[str, list[ir.Value]] = {}
        self._globals = 0
        self._cut = analysis.cut_arguments()

    def run(self) -> None:
        """Rewrites the function."""
        old = cast(func.FuncOp, self._main.opview)
        groups = {
            "inputs": [memref_type(item) for item in old.type.inputs],
            "outputs": [memref_type(item) for item in old.type.results],
            "parameters": [memref_type(kind) for kind in self._analysis.parameters.values()],
            "arena": [ir.MemRefType.get([self._arena_bytes], ir.IntegerType.get_signless(8))],
        }
        # A memref of bytes, because only that allows views at any offset.
        for group, index in self._cut:
            groups[group][index] = ir.MemRefType.get([byte_size(groups[group][index])], groups["arena"][0].element_type)
        kinds = [kind for group in groups.values() for kind in group]
        with self._main.location, ir.InsertionPoint(self._main):
            new = func.FuncOp(ENTRY, (kinds, []), visibility=self._visibility(old))
        names = [*dictionaries(old, "arg_attrs"), *dictionaries(old, "res_attrs")]
        names += [ir.DictAttr.get(discardable.NAME.entry(name)) for name in self._analysis.parameters]
        new.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([*names, ir.DictAttr.get({})])
        block, start = new.add_entry_block(), 0
        for group, members in groups.items():
            self._arguments[group] = list(block.arguments)[start : start + len(members)]
            start += len(members)
        with ir.InsertionPoint(block):
            self._rewrite_block(old.entry_block)
        self._main.erase()

    def _visibility(self, old: func.FuncOp) -> str | None:
        attributes = old.operation.attributes
        return ir.StringAttr(attributes["sym_visibility"]).value if "sym_visibility" in attributes else None

    def _rewrite_block(self, block: ir.Block) -> None:
        for op in block.operations:
            with op.location:
                self._rewrite(op.operation)

    def _rewrite(self, op: ir.Operation) -> None:
        for copy in self._analysis.before.get(op, ()):
            self._rewrite_copy(copy)
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        elif not any(map(is_tensor, op.results)):
            self._rewrite_scalars(op)
        elif op.name not in _NO_CODE:
            raise PassError(f"'{op.name}' op makes a tensor in @main outside of every kernel", op.location)

    def _rewrite_call(self, op: ir.Operation) -> None:
        arguments = [self._memory(item) for item in _operands_and_results(op)]
        call = func.CallOp([], ir.FlatSymbolRefAttr(op.attributes["callee"]), arguments)
        discardable.STEP.write(call.operation, self._analysis.steps[op])
        for attribute in (discardable.VERSIONS, discardable.CHOICE):
            attribute.copy(op, call)

    def _rewrite_return(self, _: ir.Operation) -> None:
        func.ReturnOp([])

    def _rewrite_terminator(self, op: ir.Operation) -> None:
        ir.Operation.create(op.name, operands=[self._scalars[item] for item in op.operands if not is_tensor(item)])

    def _rewrite_scalars(self, op: ir.Operation) -> None:
        """Copies an op without tensors among its results."""
        copied = op.clone()
        for index, operand in enumerate(op.operands):
            copied.operation.operands[index] = self._scalars[operand]
        self._scalars.update(zip(op.results, copied.operation.results, strict=True))

    def _rewrite_copy(self, copy: BufferCopy) -> None:
        memref.CopyOp(self._locate(copy.source, copy.kind), self._locate(copy.destination, copy.kind))

    def _rewrite_if(self, op: ir.Operation) -> None:
        results = [item for item in op.results if not is_tensor(item)]
        has_else = len(op.regions[1].blocks) > 0
        new = scf.IfOp(self._scalars[op.operands[0]], [item.type for item in results], has_else=has_else)
        for old_region, new_region in zip(op.regions, new.operation.regions, strict=True):
            for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                with ir.InsertionPoint(new_block):
                    self._rewrite_block(old_block)
        self._scalars.update(zip(results, new.results, strict=True))

    def _rewrite_loop(self, op: ir.Operation) -> None:
        results = [item for item in op.results if not is_tensor(item)]
        scalars = [self._scalars[item] for item in op.operands if not is_tensor(item)]
        new = ir.Operation.create(
            op.name, results=[item.type for item in results], operands=scalars, regions=len(op.regions)
        )
        for old_region, new_region in zip(op.regions, new.regions, strict=True):
            arguments = [item for item in old_region.blocks[0].arguments if not is_tensor(item)]
            types = [item.type for item in arguments]
            block = ir.Block.create_at_start(new_region, types, [op.location] * len(types))
            self._scalars.update(zip(arguments, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                self._rewrite_block(old_region.blocks[0])
        self._scalars.update(zip(results, new.results, strict=True))

    def _rewrite_from_elements(self, op: ir.Operation) -> None:
        """Stores a scalar of the main program for kernels to read."""
        place, item = self._memory(op.results[0]), self._scalars[op.operands[0]]
        element = ir.MemRefType(place.type).element_type
        value = item if item.type == element else arith.ExtUIOp(element, item).result
        memref.StoreOp(value, place, [])

    def _rewrite_extract(self, op: ir.Operation) -> None:
        self._scalars[op.results[0]] = self._extracted(op)

    def _extracted(self, op: ir.Operation) -> ir.Value:
        indices = [self._scalars[item] for item in list(op.operands)[1:]]
        value = memref.LoadOp(self._memory(op.operands[0]), indices).result
        if op.results[0].type == value.type:
            return value
        # A bool takes a byte in memory.
        zero = arith.ConstantOp(value.type, 0).result
        return arith.CmpIOp(arith.CmpIPredicate.ne, value, zero).result

    def _memory(self, value: ir.Value) -> ir.Value:
        return self._locate(self._analysis.place(value), value.type)

    def _locate(self, place: TensorLocation, tensor: ir.Type) -> ir.Value:
        """The memory of a tensor at `place`; the memref begins with the tensor's first element."""
        buffer, view, kind = place.buffer.root(), place.view, memref_type(tensor)
        if buffer.home != "arena" and not view.is_part:
            return self._whole(buffer, kind)
        base = self._base(buffer)
        start = self._offsets.get(buffer, 0)
        offset = arith.ConstantOp(ir.IndexType.get(), start + view.offset * element_bytes(kind)).result
        for index, stride in view.shifts:
            step = arith.ConstantOp(ir.IndexType.get(), stride * element_bytes(kind)).result
            offset = arith.AddIOp(offset, arith.MulIOp(self._scalars[index], step).result).result
        seen = kind if view.is_contiguous else ir.MemRefType.get([view.span], kind.element_type)
        flat = memref.ViewOp(seen, base, offset, []).result
        if buffer in self._numbers:
            discardable.BUFFER.write(flat.owner, self._numbers[buffer])
        if view.is_contiguous:
            return flat
        strides = normal_strides(view.sizes, view.strides)
        return _reinterpreted(flat, strided_type(tensor, strides), strides)

    def _whole(self, buffer: Buffer, kind: ir.MemRefType) -> ir.Value:
        base = self._constant(buffer) if buffer.constant else self._arguments[buffer.group][buffer.index]
        if base.type == kind:
            return base
        if (buffer.group, buffer.index) in self._cut:
            return memref.ViewOp(kind, base, arith.ConstantOp(ir.IndexType.get(), 0).result, []).result
        return _reinterpreted(base, kind, row_major(kind.shape))

    def _base(self, buffer: Buffer) -> ir.Value:
        """The memref of bytes that contains a buffer."""
        if buffer.constant:
            contents = np.ascontiguousarray(array_of(buffer.constant.attributes["value"]))
            return self._global(contents.reshape(-1).view(np.int8))
        return self._arguments["arena"][0] if buffer.home == "arena" else self._arguments[buffer.group][buffer.index]

    def _constant(self, buffer: Buffer) -> ir.Value:
        assert buffer.constant is not None
        contents = array_of(buffer.constant.attributes["value"])
        if not contents.size:  # LLVM does not allow a global without elements
            start, kind = arith.ConstantOp(ir.IndexType.get(), 0).result, memref_type(buffer.constant.results[0].type)
            return memref.ViewOp(kind, self._arguments["arena"][0], start, []).result
        if contents.dtype.kind in "bu":
            contents = np.ascontiguousarray(contents).view(f"i{contents.dtype.itemsize}")
        return self._global(contents)

    def _global(self, contents: np.ndarray) -> ir.Value:
        kind = memref_type(dense(contents).type)
        with ir.InsertionPoint(self._main):
            symbol = f"{ENTRY}.constant_{self._globals}"
            self._globals += 1
            memref.GlobalOp(
                symbol,
                ir.TypeAttr.get(kind),
                sym_visibility="private",
                initial_value=dense(contents),
                constant=True,
                alignment=i64(arena.ALIGNMENT),
            )
        return memref.GetGlobalOp(kind, symbol).result


_RULES: dict[str, Callable[[_MainRewriter, ir.Operation], None]] = {
    "func.call": _MainRewriter._rewrite_call,
    "func.return": _MainRewriter._rewrite_return,
    "scf.condition": _MainRewriter._rewrite_terminator,
    "scf.for": _MainRewriter._rewrite_loop,
    "scf.if": _MainRewriter._rewrite_if,
    "scf.while": _MainRewriter._rewrite_loop,
    "scf.yield": _MainRewriter._rewrite_terminator,
    "tensor.extract": _MainRewriter._rewrite_extract,
    "tensor.from_elements": _MainRewriter._rewrite_from_elements,
}


def _operands_and_results(call: ir.Operation) -> list[ir.Value]:
    """The memory arguments of a kernel: its inputs, and its results instead of their destinations."""
    inputs = len(call.operands) - len(call.results)
    return [*list(call.operands)[:inputs], *call.results]


def _describe(
    module: ir.Operation,
    parameters: Mapping[str, ir.Type],
    buffers: Sequence[Buffer],
    placed: Sequence[arena.Placement],
) -> None:
    read = [{"name": ir.StringAttr.get(name), "type": ir.TypeAttr.get(kind)} for name, kind in parameters.items()]
    discardable.PARAMETERS.write(module, [ir.DictAttr.get(item) for item in read])
    discardable.ARENA_BYTES.write(module, arena.arena_size(placed))
    discardable.ARENA_LOWER_BOUND.write(module, arena.lower_bound([item.lifetime for item in placed]))
    rows = [
        {"name": ir.StringAttr.get(buffer.label), "offset": i64(item.offset), "bytes": i64(buffer.size)}
        | {"first": i64(buffer.first), "last": i64(buffer.last)}
        | ({"node": ir.StringAttr.get(buffer.node)} if buffer.node else {})
        for buffer, item in zip(buffers, placed, strict=True)
    ]
    discardable.LIFETIMES.write(module, [ir.DictAttr.get(row) for row in rows])


def _reinterpreted(base: ir.Value, kind: ir.MemRefType, strides: Sequence[int]) -> ir.Value:
    """`base`, which is contiguous, reinterpreted as `kind`, which begins with the same element."""
    return memref.ReinterpretCastOp(kind, base, [], [], [], [0], list(kind.shape), list(strides)).result
