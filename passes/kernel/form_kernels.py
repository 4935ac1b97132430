"""Outlines one graph into a list of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from ...dialects import discardable
from ...dialects.discardable import KernelFacts
from ...dialects.registry import view_of
from ...dialects.specs import size_of
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.movement import BroadcastToOp
from ...dialects.types import array_of
from ...machines.caches import weight_bytes
from ...machines.costs import elementwise_ns
from ..infra.base import Pass, PassError, register
from ..infra.decisions import Decisions, Site, key_of
from ..infra.state import CompileState
from ..ir.functions import body_of, main_function
from ..ir.kernel_classes import ANCHOR_ORDER, kernel_class
from ..ir.locations import fused_location, heaviest_first, names_in
from ..ir.rewriting import walk
from .demand import Demand, read_table
from .fusion import Grouping, inputs_of
from .masks import masks_read_by, skipped_by
from .row_fusion import repeat_cheap
from .traffic import bytes_moved, elements_written
from .views import annotate


@register
@dataclass(frozen=True)
class FormKernelsPass(Pass):
    """Outline groups of ops of @main into private functions, one per kernel.

    Every op that does work lands in exactly one kernel. Contractions absorb their elementwise consumers, and those on
    bytes also what dequantises other operands of these; reductions also absorb their elementwise producers. If sizes
    vary, norms are decomposed into sums, and sums over the same rows share a kernel with the consumers of those rows.
    The module's attribute `stepwell.decisions` may name elementwise ops that share no kernel with the ops before them.
    All shapes must be static. Attributes describe the kernel:

    ```mlir
    %1 = "stepwell.matmul"(%0, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %2 = "stepwell.relu"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    // -->
    %2 = call @kernel_0(%0, %w) {stepwell.ops = ["MatMul_0", "Relu_1"]} : (...) -> tensor<4x2xf32>
    func.func private @kernel_0(...) attributes {stepwell.kernel = {class = "contraction", flops = 136, bytes = 224}}
    ```

    Attributes:
        mixed_widths: whether one kernel may mix floats of several widths.
        stops_at_extents: whether kernels stop at the sizes of a call, if sizes vary, instead of computing everything.
        products_alone: whether contractions and convolutions absorb no consumers, for units that compute nothing else.
    """

    name = "stepwell-form-kernels"
    mixed_widths: bool = False
    stops_at_extents: bool = True
    products_alone: bool = False

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Forms the kernels of the module's @main."""
        main = main_function(op)
        for inner in list(walk(main)):
            if inner.name in ("func.return", "scf.yield"):
                _fill_results(inner)
        # If sizes vary, norms are sums over the same rows.
        row_bytes = weight_bytes(state.machine) if read_table(op) and self.stops_at_extents else 0
        if row_bytes:
            # Before the demand is analysed, which knows values by their addresses: those of erased ops are used again.
            for block in _blocks(main.regions[0]):
                repeat_cheap(block)
        decisions = Decisions.of(op, state)
        outliner = _Outliner(op.regions[0].blocks[0], main, Demand(op, main), self, state, row_bytes, decisions)
        outliner.visit(main.regions[0])


def _blocks(region: ir.Region) -> Iterator[ir.Block]:
    """The blocks of a region, those inside of ops first."""
    for block in region:
        for op in list(block.operations):
            for inner in op.regions:
                yield from _blocks(inner)
        yield block


JOINED, APART = "joined", "apart"
"""Decisions on an elementwise op: it may share a kernel with the ops before it, or has one of its own."""

# Maximum number of elements of a uniform result that is stored whole: 4 KiB of float32, a choice to keep files small.
_LARGEST_LITERAL = 1024


def _fill_results(terminator: ir.Operation) -> None:
    """Fills large uniform results from one element at run time instead of storing the whole constant.

    return %c : tensor<...> --> %0 = broadcast_to %scalar; return %0
    """
    for index, value in enumerate(terminator.operands):
        if not _is_inline_constant(value) or size_of(value) <= _LARGEST_LITERAL:
            continue
        element = array_of(ir.DenseElementsAttr(value.owner.attributes["value"])).flat[0]
        with value.owner.location, ir.InsertionPoint(terminator):
            shape = ir.RankedTensorType(value.type).shape
            terminator.operands[index] = BroadcastToOp(ConstantOp(value=np.asarray(element)), shape=shape).result
        if next(iter(value.uses), None) is None:
            value.owner.erase()


class _Outliner:
    def __init__(
        self,
        body: ir.Block,
        main: ir.Operation,
        demand: Demand,
        options: FormKernelsPass,
        state: CompileState,
        row_bytes: int,
        decisions: Decisions,
    ) -> None:
        self._options, self._state, self._row_bytes = options, state, row_bytes
        self._decisions = decisions
        self._body = body
        self._main = main
        self._demand = demand
        self._count = 0

    def visit(self, region: ir.Region) -> None:
        for block in _blocks(region):
            options = self._options
            row_bytes, alone = self._row_bytes, options.products_alone
            grouping = Grouping(block, options.mixed_widths, row_bytes, alone, self._is_apart)
            grouping.note_refusals(self._state)
            for group in grouping.groups:
                self._outline(group)

    def _is_apart(self, op: ir.Operation) -> bool:
        """Returns whether an elementwise op is decided to be in another kernel than the producers of its operands."""
        return self._decisions.make(JOINED, lambda: self._site_of(op)) == APART

    def _site_of(self, op: ir.Operation) -> Site:
        """The decision whether an elementwise op shares a kernel with the producers of its operands."""
        makers = [value.owner.name for value in op.operands if not isinstance(value.owner, ir.Block)]
        key = " ".join((key_of(op), "after", *makers)).replace(discardable.PREFIX, "")
        moved = bytes_moved([op], list(op.operands))
        pass_ns = elementwise_ns(self._state.machine, moved, 0)
        # A kernel of its own reads and writes the tensors once more.
        costs: dict[str, float | None] = {JOINED: pass_ns, APART: 2 * pass_ns + self._state.machine.call_ns}
        return Site("fusion", key, names_in(op.location), JOINED, costs, elements_written(op), moved)

    def _outline(self, group: list[ir.Operation]) -> None:
        for op in group:
            _require_static(op)
        inputs = [value for value in inputs_of(group) if not _is_inline_constant(value)]
        result = group[-1].results[0]
        entries, keys = self._demand.entries(result), self._demand.keys(group)
        skipped, kept = skipped_by(group, inputs), self._demand.kept(group)
        if not self._options.stops_at_extents:  # they read the masks instead
            entries, keys, skipped, kept = None, None, [], []
        if entries is None and (keys is not None or skipped or max(kept, default=-1) >= 0):
            entries = [-1] * ir.RankedTensorType(result.type).rank
        if entries is not None:
            *_, table = body_of(self._main).arguments
            inputs = [*(value for value in inputs if value != table), table]
        kernel = self._make_function(group, inputs, result)
        annotate(kernel.operation, inputs, [result])
        if self._demand.is_partial:
            discardable.READS_PADDING.write(kernel, True)
        whole = self._demand.why_whole(result)
        if whole is not None:
            discardable.UNBOUNDED.write(kernel, [whole])
        if entries is not None:
            discardable.EXTENTS.write(kernel, entries)
            typical = self._demand.typical(result, kept)
            if typical:
                discardable.TYPICAL.write(kernel, typical)
            if max(kept, default=-1) >= 0:
                discardable.KEPT.write(kernel, kept)
            if keys is not None:
                discardable.KEYS.write(kernel, keys)
            if skipped:
                discardable.SKIPPED.write(kernel, skipped)
            masks = masks_read_by(group, inputs) if skipped else []
            if masks:
                discardable.MASKS.write(kernel, masks)
            discardable.TABLE_ARGUMENT.write(kernel, len(inputs) - 1)
        found = _shares(group)
        with ir.InsertionPoint(group[-1]), fused_location(group):
            call = func.CallOp([result.type], kernel.sym_name.value, inputs)
            discardable.OPS.write(call, [name for name, _ in found])
            discardable.WORK.write(call, [work for _, work in found])
        result.replace_all_uses_with(call.results[0])
        for op in reversed(group):
            op.erase()

    def _make_function(self, group: list[ir.Operation], inputs: list[ir.Value], result: ir.Value) -> func.FuncOp:
        name = f"kernel_{self._count}"
        self._count += 1
        with ir.InsertionPoint(self._body), fused_location(group):
            kernel = func.FuncOp(name, ([value.type for value in inputs], [result.type]), visibility="private")
            discardable.KERNEL.write(kernel, _describe(group, inputs))
            block = kernel.add_entry_block()
        mapping = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for value in inputs_of(group):
                if value not in mapping:
                    mapping[value] = value.owner.operation.clone().results[0]
            for op in group:
                clone = op.clone()
                for index, value in enumerate(op.operands):
                    clone.operands[index] = mapping[value]
                mapping.update(zip(op.results, clone.results, strict=True))
            with group[-1].location:
                func.ReturnOp([mapping[result]])
        return kernel


def _shares(group: Sequence[ir.Operation]) -> list[tuple[str, int]]:
    """The model's nodes that a group stands for, those of its heaviest op first, each with its work.

    The work of an op made from several nodes is attributed to the first of them, the dominant one.
    """
    found = [(op, rank, name) for op in heaviest_first(group) for rank, name in enumerate(names_in(op.location))]
    return [(name, 0 if rank else _work(op)) for op, rank, name in found]


def _work(op: ir.Operation) -> int:
    """Weight of an op when a kernel's time is divided among its ops: its flops, plus one per element written."""
    view = view_of(op)
    return elements_written(op) + (view.flops() if view is not None else 0)


def _describe(group: list[ir.Operation], inputs: list[ir.Value]) -> KernelFacts:
    kinds = {kernel_class(op) for op in group}
    kind = next(kind for kind in ANCHOR_ORDER if kind in kinds)
    work = sum(view.flops() for op in group if (view := view_of(op)) is not None)
    # Clamped: impossibly large tensors may overflow 64 bits.
    return KernelFacts(kind, min(work, 1 << 62), bytes_moved(group, inputs))


def _is_inline_constant(value: ir.Value) -> bool:
    """Returns whether a value is a uniform constant, inlined into the kernel; other constants are arguments."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stepwell.constant":
        return False
    return ir.DenseElementsAttr(owner.attributes["value"]).is_splat


def _require_static(op: ir.Operation) -> None:
    for value in [*op.operands, *op.results]:
        if not ir.RankedTensorType(value.type).has_static_shape:
            reason = f"'{op.name}' op has a dynamic shape ({value.type}); bind the input shapes first"
            raise PassError(reason, op.location)
