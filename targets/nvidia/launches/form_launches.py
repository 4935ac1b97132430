"""`stepwell-form-launches`: splits every kernel into launches, each with a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func, tensor

from ....dialects import discardable
from ....dialects.symbols import symbol_of
from ....passes.infra.base import Pass, PassError, register
from ....passes.infra.state import CompileState
from ....passes.ir.functions import body_of, kernels_in
from ....passes.ir.rewriting import walk
from ....passes.kernel.views import EXTRACT, INSERT
from ..emission.views import attributes_of, memories, memory_of, row_major_memory
from ..kernels import elements
from ..kernels.attention.emitter import split as split_attention
from ..kernels.contraction.tuned import PARTS, tuned_numbers
from ..kernels.rows.split import split_long_reduction
from ..target import GpuTarget
from . import emitters
from .kernel_splits import KernelSplit, operands_read


@register
@dataclass(frozen=True)
class FormLaunchesPass(Pass):
    """Turn every kernel into calls of its launches: functions that one grid of threads computes, each with a schedule.

    A kernel is cut where many threads need the same element, such as the result of a reduction. A tensor between two
    launches is local to the kernel. A kernel that one specific schedule covers (rows, contraction, attention) is one
    launch.

    ```mlir
    func.func private @k(%x: tensor<8x64xf32>, %out: tensor<8x64xf32>) -> tensor<8x64xf32>
        attributes {stepwell.kernel = {class = "reduction", ...}} {
      %0 = linalg.generic ...  // the maximum of each row
      %1 = linalg.generic ...  // the elements less than the maximum
    // -->
    func.func private @k(%x: tensor<8x64xf32>, %out: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %0 = tensor.empty() : tensor<8xf32>
      %1 = call @k_0(%x, %0) : (tensor<8x64xf32>, tensor<8xf32>) -> tensor<8xf32>
      %2 = call @k_1(%x, %1, %out) : (tensor<8x64xf32>, tensor<8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    func.func private @k_0(...) attributes {stepwell.launch, stepwell.schedule = {name = "elements", vector = 1, ...}}
    ```

    A kernel that already has `stepwell.schedule` becomes one launch with that schedule. The schedule of a tuner has
    only the parameters that differ from the default; it gives the contraction of the kernel its tiles.

    Attributes:
        target: the GPU, in the form that `GpuTarget.parse` accepts.

    Preconditions: phase `kernels`.
    """

    name = "stepwell-form-launches"
    target: str = "cuda:sm_80"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Splits every kernel of a module."""
        target = GpuTarget.parse(self.target)
        for kernel in kernels_in(op):
            _form(kernel, target)


def _form(kernel: ir.Operation, target: GpuTarget) -> None:
    tuned = tuned_numbers(kernel)
    if tuned is not None:
        discardable.SCHEDULE.remove(kernel)
    if not discardable.SCHEDULE.is_on(kernel):
        split_long_reduction(kernel, target)
        split_attention(kernel, target)
    whole = _chosen(kernel, target, tuned)
    if discardable.SCHEDULE.is_on(kernel) or whole is not None:
        _form_one(kernel, whole)
        return
    _Former(kernel, target, tuned).run()


def _chosen(
    function: ir.Operation, target: GpuTarget, tuned: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the schedule of a launch; a contraction has the tiles that the tuner found for its kernel."""
    chosen = emitters.choose(function, target)
    if chosen is None or chosen[0] != "contraction" or tuned is None:
        return chosen
    return chosen[0], {**chosen[1], **{name: value for name, value in tuned.items() if name != PARTS}}


def _form_one(kernel: ir.Operation, chosen: tuple | None) -> None:
    """Moves the unchanged body of the kernel to a single launch."""
    launch = kernel.clone(ir.InsertionPoint.after(kernel)).operation
    launch.attributes["sym_name"] = ir.StringAttr.get(f"{symbol_of(kernel)}_0")
    discardable.LAUNCH.write(launch, True)
    discardable.KERNEL.remove(launch)
    if chosen is not None:
        discardable.SCHEDULE.write(launch, emitters.schedule_attribute(*chosen))
    block = body_of(kernel)
    for op in reversed(list(block.operations)):
        op.operation.erase()
    arguments = list(block.arguments)
    with kernel.location, ir.InsertionPoint(block):
        call = func.CallOp([arguments[-1].type], ir.FlatSymbolRefAttr.get(f"{symbol_of(kernel)}_0"), arguments)
        func.ReturnOp(call.results)
    discardable.SCHEDULE.copy(launch, kernel)


class _Former:
    """Writes the launches of one kernel after it, and calls to them into it."""

    def __init__(self, kernel: ir.Operation, target: GpuTarget, tuned: Mapping[str, Any] | None) -> None:
        self._kernel, self._target, self._tuned = kernel, target, tuned
        self._block = body_of(kernel)
        self._old = [op.operation for op in self._block.operations]
        self._made: dict[ir.Value, ir.Value] = {item: item for item in self._block.arguments}
        self._places = memories(kernel)
        self._last = kernel
        self._names: list[str] = []
        self._product_numbers: Mapping[str, Any] = {}

    def run(self) -> None:
        """Rewrites the kernel."""
        returned = self._old[-1]
        pieces, result = self._pieces(returned.operands[0])
        roots = [source for source, _ in pieces] or [result]
        materialized = KernelSplit(self._kernel, roots).materialized
        destination = self._block.arguments[len(self._block.arguments) - 1]
        with self._kernel.location, ir.InsertionPoint(returned):
            for value in materialized:
                kind = ir.RankedTensorType(value.type)
                empty = tensor.EmptyOp(kind.shape, kind.element_type).result
                self._places[empty] = row_major_memory(empty)
                self._made[value] = self._call(value, empty)
            if pieces:
                returned.operands[0] = self._insert_all(pieces, destination)
            else:
                returned.operands[0] = self._call(result, destination)
        for op in reversed(self._old[:-1]):
            op.erase()
        schedule = emitters.schedule_attribute("+".join(dict.fromkeys(self._names)), self._product_numbers)
        discardable.SCHEDULE.write(self._kernel, schedule)

    def _pieces(self, value: ir.Value) -> tuple[list[tuple[ir.Value, ir.Operation]], ir.Value]:
        """Returns the tensors inserted into the destination, in order; none if the result is computed as a whole."""
        destination, found, current = self._block.arguments[len(self._block.arguments) - 1], [], value
        while not isinstance(current.owner, ir.Block) and current.owner.name == INSERT:
            found.append((current.owner.operands[0], current.owner.operation))
            current = current.owner.operands[1]
        return (found[::-1], value) if current == destination else ([], value)

    def _insert_all(self, pieces: Sequence[tuple[ir.Value, ir.Operation]], destination: ir.Value) -> ir.Value:
        for source, insertion in pieces:
            with insertion.location:
                box = {
                    name: insertion.attributes[name] for name in ("static_offsets", "static_sizes", "static_strides")
                }
                segments = ir.DenseI32ArrayAttr.get([1, 0, 0, 0])
                attributes = {**box, "operandSegmentSizes": segments}
                window = ir.Operation.create(EXTRACT, [source.type], [destination], attributes).result
                place = memory_of(window, self._places)
                if place is None:
                    raise PassError(f"'{INSERT}' op: expected constant offsets", insertion.location)
                self._places[window], whole = place, self._places[destination]
                made = self._call(source, window)
                attributes = {**box, "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 0, 0, 0])}
                destination = ir.Operation.create(INSERT, [destination.type], [made, destination], attributes).result
                self._places[destination] = whole
        return destination

    def _call(self, root: ir.Value, destination: ir.Value) -> ir.Value:
        """Adds a launch that computes `root`, and calls it."""
        ops, leaves = self._tree(root)
        name = f"{symbol_of(self._kernel)}_{len(self._names)}"
        operands = [*(self._made[leaf] for leaf in leaves), destination]
        launch = self._function(name, root, ops, leaves, operands)
        chosen = _chosen(launch, self._target, self._tuned)
        if chosen is None:
            target = memories(launch)[body_of(launch).arguments[len(leaves)]]
            numbers = elements.choose(launch, target)
            chosen = "elements", {"vector": numbers.vector, "threads": numbers.threads}
        discardable.SCHEDULE.write(launch, emitters.schedule_attribute(*chosen))
        self._names.append(chosen[0])
        self._product_numbers = chosen[1] if chosen[0] == "contraction" else self._product_numbers
        result = func.CallOp([root.type], ir.FlatSymbolRefAttr.get(name), operands).results[0]
        self._places[result] = self._places[destination]
        return result

    def _tree(self, root: ir.Value) -> tuple[list[ir.Operation], list[ir.Value]]:
        """Returns the ops that a launch needs, in order, and the tensors that it reads."""
        needed: list[ir.Operation] = []
        leaves: list[ir.Value] = []
        pending = [root]
        while pending:
            value = pending.pop()
            if value in self._made:
                leaves += [value] if value not in leaves else []
                continue
            op = value.owner.operation
            if any(op == other for other in needed):
                continue
            needed.append(op)
            pending += [item for _, item in operands_read(op)]
            pending += [item for item in op.operands if not isinstance(item.type, ir.RankedTensorType)]
            pending += list(captured(op))
        order = [op for op in self._old if any(op == other for other in needed)]
        return order, [value for value in self._made if value in leaves]

    def _function(
        self,
        name: str,
        root: ir.Value,
        ops: Sequence[ir.Operation],
        leaves: Sequence[ir.Value],
        operands: list[ir.Value],
    ) -> ir.Operation:
        """Creates the launch's function, with copies of the given ops."""
        types = [item.type for item in operands]
        with ir.InsertionPoint.after(self._last):
            made = func.FuncOp(name, (types, [root.type]), visibility="private")
        function = self._last = made.operation
        discardable.LAUNCH.write(function, True)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([attributes_of(self._places[item]) for item in operands])
        block = made.add_entry_block()
        known: dict[ir.Value, ir.Value] = dict(zip(leaves, list(block.arguments)[:-1], strict=True))
        with ir.InsertionPoint(block):
            for op in ops:
                copied = _copy(op, known)
                known.update(zip(op.results, copied.results, strict=True))
            func.ReturnOp([known[root]])
        return function


def captured(op: ir.Operation) -> list[ir.Value]:
    """Returns the values from outside that the regions of an op use."""
    inner = list(walk(op))
    own = {
        argument for each in [op, *inner] for region in each.regions for block in region for argument in block.arguments
    }
    own.update(result for each in inner for result in each.results)
    return [value for each in inner for value in each.operands if value not in own]


def _copy(op: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """Copies an op onto the copies of its operands; operands that it only overwrites become new empty tensors."""
    read = {position for position, _ in operands_read(op)}
    operands = list(op.operands)
    for position, operand in enumerate(operands):
        if isinstance(operand.type, ir.RankedTensorType) and position not in read:
            kind = ir.RankedTensorType(operand.type)
            operands[position] = tensor.EmptyOp(kind.shape, kind.element_type).result
        else:
            operands[position] = known[operand]
    copied = op.clone().operation
    for position, operand in enumerate(operands):
        copied.operands[position] = operand
    for inner in walk(copied):
        for position, operand in enumerate(inner.operands):
            if operand in known:
                inner.operands[position] = known[operand]
    return copied
