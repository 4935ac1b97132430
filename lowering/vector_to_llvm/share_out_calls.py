"""`stepwell-share-out-calls`: makes `@main` distribute the blocks of kernels over a thread pool."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, main_function
from ...passes.ir.rewriting import walk
from ..target import Target
from .thread_pool import BEGIN, END, LONG, SHARE, SHORT, module_text


@register
@dataclass(frozen=True)
class ShareOutCallsPass(Pass):
    """Give `@main` a thread pool as its last argument, and distribute calls of several blocks over it.

        llvm.func @main(%x: !llvm.ptr) { llvm.call @k(%x, %first, %last) {stepwell.shared} }
        -->
        llvm.func internal @k.part(%args: !llvm.ptr, %first: i64, %last: i64) {
          %x = llvm.load %args ...
          llvm.call @k(%x, %first, %last)
        }
        llvm.func @main(%x: !llvm.ptr, %pool: !llvm.ptr) {
          llvm.call @stepwell_begin(%pool, %is_long_or_short)
          %args = llvm.alloca ...
          llvm.store %x, %args
          llvm.call @stepwell_share(%pool, @k.part, %args, %first, %last) {stepwell.shared_kernel = @k}
          llvm.call @stepwell_end(%pool)
        }

    If there are calls to distribute, the functions of thread pools are added to the module (see thread_pool.py).
    If the pool is a null pointer, the calling thread does all blocks.

    Preconditions: LLVM dialect, bare pointers.
    """

    name = "stepwell-share-out-calls"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the calls in `@main`."""
        if discardable.LIBRARY.is_on(op):
            return
        main = main_function(op)
        with main.location:
            pool = _add_pool(main)
            calls = [call for call in walk(main) if call.name == "llvm.call" and discardable.SHARED.is_on(call)]
            if not calls:
                return
            functions = ir.Module.parse(module_text(Target.parse(self.target)))
            for function in functions.body.operations:
                function.operation.clone(ip=ir.InsertionPoint(main))
            with ir.InsertionPoint.at_block_begin(body_of(main)):
                most = max(len(call.operands) for call in calls) - 2
                args = _alloca(most)
                _call(BEGIN, [pool, _number(SHORT if discardable.IS_SHORT.is_on(op) else LONG)])
            for end in [op for op in walk(main) if op.name == "llvm.return"]:
                with ir.InsertionPoint(end):
                    _call(END, [pool])
            parts: dict[str, str] = {}
            for call in calls:
                callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
                if callee not in parts:
                    parts[callee] = _make_part(main, callee, [operand.type for operand in call.operands])
                _share(call, pool, parts[callee], args)


def _add_pool(main: ir.Operation) -> ir.Value:
    """Adds the last argument of main."""
    body, pointer = body_of(main), ir.Type.parse("!llvm.ptr")
    types = ", ".join(str(item.type) for item in body.arguments)
    separator = ", " if types else ""
    main.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<void ({types}{separator}ptr)>"))
    if "arg_attrs" in main.attributes:
        rows = [*ir.ArrayAttr(main.attributes["arg_attrs"]), ir.DictAttr.get({})]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(rows)
    return body.add_argument(pointer, main.location)


def _number(value: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    attributes = {"value": ir.IntegerAttr.get(i64, value)}
    return ir.Operation.create("llvm.mlir.constant", results=[i64], attributes=attributes).result


def _alloca(slots: int) -> ir.Value:
    """Allocates memory for the arguments of one call; calls do not overlap."""
    pointer, attributes = ir.Type.parse("!llvm.ptr"), {"elem_type": ir.TypeAttr.get(ir.IntegerType.get_signless(64))}
    count = _number(max(1, slots))
    return ir.Operation.create("llvm.alloca", results=[pointer], operands=[count], attributes=attributes).result


def _make_part(main: ir.Operation, callee: str, kinds: list[ir.Type]) -> str:
    """Makes a function that takes the arguments of a kernel from memory."""
    loads = [
        f"%p{slot} = llvm.getelementptr inbounds %args[{slot}] : (!llvm.ptr) -> !llvm.ptr, i64\n"
        f"%v{slot} = llvm.load %p{slot} : !llvm.ptr -> {kind}"
        for slot, kind in enumerate(kinds[:-2])
    ]
    values = ", ".join([*(f"%v{slot}" for slot in range(len(kinds) - 2)), "%first", "%last"])
    types, body = ", ".join(map(str, kinds)), "\n".join(loads)
    text = (
        f"llvm.func @{callee}({types})\n"
        f"llvm.func internal @{callee}.part(%args: !llvm.ptr, %first: i64, %last: i64) {{\n{body}\n"
        f"llvm.call @{callee}({values}) : ({types}) -> ()\nllvm.return\n}}"
    )
    made = ir.Module.parse(text)
    made.body.operations[1].operation.clone(ip=ir.InsertionPoint(main))
    return f"{callee}.part"


def _share(call: ir.Operation, pool: ir.Value, part: str, args: ir.Value) -> None:
    """Distributes a call.

    llvm.call @k(%x, %first, %last) --> llvm.call @stepwell_share(%pool, @k.part, %args, %first, %last)
    """
    operands, i64 = list(call.operands), ir.IntegerType.get_signless(64)
    pointer = args.type
    with call.location, ir.InsertionPoint(call):
        for slot, operand in enumerate(operands[:-2]):
            ir.Operation.create("llvm.store", operands=[operand, _slot(args, slot, i64)])
        symbol = {"global_name": ir.FlatSymbolRefAttr.get(part)}
        address = ir.Operation.create("llvm.mlir.addressof", results=[pointer], attributes=symbol).result
        made = _call(SHARE, [pool, address, args, *operands[-2:]])
        discardable.SHARED_KERNEL.write(made, ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
        for attribute in (discardable.STEP, discardable.OPS):
            attribute.copy(call, made)
    call.erase()


def _call(callee: str, operands: list[ir.Value]) -> ir.Operation:
    """Makes a call of a function without results at the insertion point."""
    attributes = {
        "callee": ir.FlatSymbolRefAttr.get(callee),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    return ir.Operation.create("llvm.call", operands=operands, attributes=attributes)


def _slot(args: ir.Value, slot: int, i64: ir.Type) -> ir.Value:
    attributes = {"rawConstantIndices": ir.DenseI32ArrayAttr.get([slot]), "elem_type": ir.TypeAttr.get(i64)}
    return ir.Operation.create("llvm.getelementptr", results=[args.type], operands=[args], attributes=attributes).result
