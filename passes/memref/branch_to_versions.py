"""`stepwell-branch-to-versions`: replaces a call of a kernel with versions by branches that call one of them."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, memref, scf

from ...dialects import discardable
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, main_function
from ..ir.memory_layout import byte_size
from ..ir.named_ops import ops_named
from ..kernel.demand import TABLE_INPUT
from ..kernel.versions import versions_of


@register
@dataclass(frozen=True)
class BranchToVersionsPass(Pass):
    """Select the version of a kernel by an entry of the table of extents.

        call @k(%x, %table, %out) {stepwell.versions = [@k, @k_version_1], stepwell.choice = 7}
        -->
        %number = memref.load %table[%c7]
        %is_last = arith.cmpi eq, %number, %c1
        scf.if %is_last { call @k_version_1(%x, %table, %out) } else { call @k(%x, %table, %out) }

    Preconditions: memory is planned, but workspaces are not.
    """

    name = "stepwell-branch-to-versions"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the calls in `@main`."""
        if discardable.LIBRARY.is_on(op):
            return
        main = main_function(op)
        calls = [call for call in ops_named(main, "func.call") if discardable.VERSIONS.is_on(call)]
        if not calls:
            return
        table = _table(main)
        for call in calls:
            with call.location, ir.InsertionPoint(call):
                entry = arith.ConstantOp(ir.IndexType.get(), discardable.CHOICE.required(call)).result
                _branch(call, memref.LoadOp(table, [entry]).result, versions_of(call))
            call.erase()


def _table(main: ir.Operation) -> ir.Value:
    """Returns the table as a memref of i64. It is an argument of bytes if `@main` takes other views of it as well."""
    for argument, named in zip(body_of(main).arguments, dictionaries(main, "arg_attrs"), strict=True):
        if discardable.NAME.read(named) == TABLE_INPUT:
            return _entries(argument)
    raise PassError(f"kernels have versions, but @main has no input '{TABLE_INPUT}' that selects them", main.location)


def _entries(table: ir.Value) -> ir.Value:
    kind, entry = ir.MemRefType(table.type), ir.IntegerType.get_signless(64)
    if kind.element_type == entry:
        return table
    block = ir.BlockArgument(table).owner
    with block.owner.location, ir.InsertionPoint.at_block_begin(block):
        start = arith.ConstantOp(ir.IndexType.get(), 0)
        return memref.ViewOp(ir.MemRefType.get([byte_size(kind) // 8], entry), table, start, []).result


def _branch(call: ir.Operation, number: ir.Value, versions: list[str]) -> None:
    """Branches on the number of a version and calls it, at the insertion point."""
    if len(versions) == 1:
        made = func.CallOp([], ir.FlatSymbolRefAttr.get(versions[0]), list(call.operands))
        discardable.STEP.copy(call, made)
        return
    last = arith.ConstantOp(number.type, len(versions) - 1).result
    branch = scf.IfOp(arith.CmpIOp(arith.CmpIPredicate.eq, number, last).result, has_else=True).operation
    for region, several in zip(branch.regions, (versions[-1:], versions[:-1]), strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            _branch(call, number, several)
            scf.YieldOp([])
