"""Buffer assignment and lifetimes of every tensor of `@main`: the analysis under `stepwell-plan-memory`.

A call of a kernel writes one new buffer per result, or the part of a larger buffer into which its result is inserted.
Slices, reshapes and casts are further views of their operand's buffer. Values that a branch yields or @main returns
are computed directly in the buffer of the `scf.if` result or in the output. If their buffer already has another owner,
they are copied. A loop carries each of its tensors in one buffer. An iteration writes to it after
it has read the previous iteration's value; a value needed longer is copied at the end of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlir import ir

from ...dialects import discardable
from ..infra.base import PassError
from ..ir.memory_layout import byte_size
from ..ir.values import is_tensor, shape_of
from ..kernel.views import EXTRACT, INSERT, box_of, row_index
from .buffer_views import ALIASES, CONSTANTS, Buffer, BufferCopy, BufferView, TensorLocation, Writes


class BufferAnalysis:
    """Assigns buffers to the tensors of a function.

    Attributes:
        parameters: types of the parameters by name, in order of first use.
        callees: names of the kernels, in order of their first call.
        steps: the step at which an op runs, for ops that use memory.
        before: copies to make before an op: calls, loops and terminators.
    """

    def __init__(self, function: ir.Operation) -> None:
        """Analyses `function`.

        Raises:
            PassError: an op is not allowed in `@main` at this level, or a shape is not static.
        """
        self.parameters: dict[str, ir.Type] = {}
        self.callees: dict[str, None] = {}
        self.steps: dict[ir.Operation, int] = {}
        self.before: dict[ir.Operation, list[BufferCopy]] = {}
        self._buffers: list[Buffer] = []
        self._of: dict[ir.Value, TensorLocation] = {}
        self._writes = Writes()
        self._now = 0
        body = function.regions[0].blocks[0]
        for index, argument in enumerate(body.arguments):
            self._put(argument, self._argument(argument.type, "inputs", index))
        self._visit_block(body)

    def buffer(self, value: ir.Value) -> Buffer:
        """The buffer of a tensor."""
        return self._of[value].buffer.root()

    def place(self, value: ir.Value) -> TensorLocation:
        """The place of a tensor."""
        return self._of[value]

    def cut_arguments(self) -> set[tuple[str, int]]:
        """The arguments of @main, by group and index, of which only parts are used at once."""
        parts = [place.buffer.root() for place in self._of.values() if place.view.is_part]
        return {(buffer.group, buffer.index) for buffer in parts if buffer.home == "argument"}

    def arena_buffers(self) -> list[Buffer]:
        """The buffers to be placed in the arena."""
        return [item for item in self._buffers if item.merged_into is None and item.home == "arena" and item.first >= 0]

    def _visit_block(self, block: ir.Block) -> None:
        for op in block.operations:
            self._visit(op.operation, block)

    def _visit(self, op: ir.Operation, block: ir.Block) -> None:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op, block)
        elif _tensors_of(op) and op.name not in _TERMINATORS:
            raise PassError(f"'{op.name}' op works on tensors in @main outside of every kernel", op.location)

    def _visit_alias(self, op: ir.Operation, _: ir.Block) -> None:
        if _tensors_of(op):
            self._of[op.results[0]] = self._alias(op)

    def _visit_extract_slice(self, op: ir.Operation, _: ir.Block) -> None:
        self._of[op.results[0]] = _part(self._of[op.operands[0]], op, op.results[0])

    def _visit_insert_slice(self, op: ir.Operation, _: ir.Block) -> None:
        self._of[op.results[0]] = self._insert(op)

    def _visit_empty(self, op: ir.Operation, block: ir.Block) -> None:
        self._put(op.results[0], self._new(op.results[0].type, block, "empty"))

    def _visit_parameter(self, op: ir.Operation, _: ir.Block) -> None:
        self._put(op.results[0], self._parameter(op))

    def _visit_constant(self, op: ir.Operation, _: ir.Block) -> None:
        if _tensors_of(op):
            self._put(op.results[0], Buffer(byte_size(op.results[0].type), "constant", constant=op))

    def _visit_from_elements(self, op: ir.Operation, block: ir.Block) -> None:
        self._put(op.results[0], self._new(op.results[0].type, block, "scalar"))
        self._step(op, [self.buffer(op.results[0])])

    def _visit_extract(self, op: ir.Operation, _: ir.Block) -> None:
        self._step(op, [self.buffer(op.operands[0])])

    def _alias(self, op: ir.Operation) -> TensorLocation:
        place = self._of[op.operands[0]]
        if not place.view.is_contiguous:
            raise PassError(f"'{op.name}' op of a view whose elements are not contiguous", op.location)
        return replace(place, view=place.view.reshaped(shape_of(op.results[0])))

    def _insert(self, op: ir.Operation) -> TensorLocation:
        """Requires that the inserted tensor was computed in place, so that the insertion itself does nothing."""
        part, whole = (self._of[value] for value in list(op.operands)[:2])
        if part.buffer is not whole.buffer or part.view != _part(whole, op, op.operands[0]).view:
            raise PassError("'tensor.insert_slice' op of a tensor that was not computed in place", op.location)
        return replace(whole, since=self._now)

    def _visit_call(self, op: ir.Operation, block: ir.Block) -> None:
        inputs = len(op.operands) - len(op.results)
        reads = list(op.operands)[:inputs]
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        self.callees[callee] = None
        for value in reads:
            self._require_current(op, value)
        for result, destination in zip(op.results, list(op.operands)[inputs:], strict=True):
            if _made_by(destination, EXTRACT):
                self._of[result] = self._part_of_local(op, destination, block)
                self._of[result].buffer.label, self._of[result].buffer.node = callee, _node(op)
                continue
            self._put(result, self._new(result.type, block, callee, _node(op)))
            if not _made_by(destination, "tensor.empty"):
                self._copy(op, destination, self._of[result])
        self._step(op, [self.buffer(value) for value in [*reads, *op.results]])
        for result in op.results:
            self._of[result] = replace(self._of[result], since=self._now)
            self._writes.record(self._of[result])

    def _part_of_local(self, op: ir.Operation, destination: ir.Value, block: ir.Block) -> TensorLocation:
        place = self._of[destination]
        # Rows of a loop-carried tensor are written inside the loop, in another block.
        if place.buffer.home != "arena" or (place.buffer.block != block and not place.view.shifts):
            raise PassError("a call writes to a part of a tensor that is not created in the same block", op.location)
        return place

    def _require_current(self, op: ir.Operation, value: ir.Value) -> None:
        if self._writes.hide(self._of[value]):
            raise PassError(f"'{op.name}' op reads a tensor that has been overwritten", op.location)

    def _visit_if(self, op: ir.Operation, block: ir.Block) -> None:
        tensors = {index: result for index, result in enumerate(op.results) if is_tensor(result)}
        merged = {index: self._new(result.type, block, "if") for index, result in tensors.items()}
        for region in op.regions:
            for inner in region.blocks:
                self._visit_block(inner)
                terminator = list(inner.operations)[-1].operation
                for index, buffer in merged.items():
                    self._deliver(terminator, terminator.operands[index], buffer.root(), inner)
        for index, buffer in merged.items():
            self._put(op.results[index], buffer)

    def _visit_for(self, op: ir.Operation, block: ir.Block) -> None:
        body = op.regions[0].blocks[0]
        self._visit_loop(op, block, [body], list(body.arguments)[1:], list(op.operands)[3:])

    def _visit_while(self, op: ir.Operation, block: ir.Block) -> None:
        blocks = [region.blocks[0] for region in op.regions]
        arguments = [argument for inner in blocks for argument in inner.arguments]
        self._visit_loop(op, block, blocks, arguments, list(op.operands))

    def _visit_loop(
        self,
        op: ir.Operation,
        block: ir.Block,
        blocks: Sequence[ir.Block],
        arguments: Sequence[ir.Value],
        initial: Sequence[ir.Value],
    ) -> None:
        """Visits a loop whose blocks take `arguments`; per block, these start as the `initial` values."""
        kinds = {index: value.type for index, value in enumerate(initial) if is_tensor(value)}
        carried = {index: self._new(kind, block, op.name.removeprefix("scf.")) for index, kind in kinds.items()}
        for index, buffer in carried.items():
            for argument in arguments[index :: len(initial)]:
                self._put(argument, buffer)
            if not _made_by(initial[index], "tensor.empty"):
                self._copy(op, initial[index], self._of[arguments[index]])
        start = self._step(op, list(carried.values()))
        for inner in blocks:
            self._visit_block(inner)
        self._carry_over(list(blocks[-1].operations)[-1].operation, carried, blocks[-1])
        for buffer in self._buffers:
            # Values from before the loop that are read inside it must outlive the last iteration.
            if buffer.first <= start <= buffer.last:
                buffer.last = max(buffer.last, self._now)
        for index, buffer in carried.items():
            self._of[op.results[index]] = TensorLocation(buffer, BufferView.of(shape_of(op.results[index])), self._now)

    def _carry_over(self, terminator: ir.Operation, carried: dict[int, Buffer], body: ir.Block) -> None:
        """Moves yielded values to where the next iteration reads them, via temporaries if the loop permutes them."""
        values = {index: terminator.operands[index] for index in carried}
        for index, buffer in carried.items():
            source, view = self._of[values[index]].buffer, self._of[values[index]].view
            is_free = source is source.root() and source.home == "arena" and source.block == body and view.is_whole
            is_wanted = any(self.buffer(value) is buffer for value in values.values())
            if is_free and not is_wanted and 0 <= buffer.last < source.first:
                source.merged_into = buffer
        moving = {index: buffer for index, buffer in carried.items() if self.buffer(values[index]) is not buffer}
        late = []
        for index, buffer in moving.items():
            value = values[index]
            if self.buffer(value) in moving.values():
                aside, whole = self._new(value.type, body, "for"), BufferView.of(shape_of(value))
                self._copy(terminator, value, TensorLocation(aside, whole))
                late.append(BufferCopy(TensorLocation(aside, whole), TensorLocation(buffer, whole), value.type))
        for index, buffer in moving.items():
            value = values[index]
            if self.buffer(value) not in moving.values():
                self._copy(terminator, value, TensorLocation(buffer, BufferView.of(shape_of(value))))
        for copy in late:
            self._record(terminator, copy)
        self._step(terminator, list(carried.values()))

    def _visit_return(self, op: ir.Operation, block: ir.Block) -> None:
        for index, value in enumerate(op.operands):
            output = self._argument(value.type, "outputs", index)
            self._deliver(op, value, output, block)

    def _deliver(self, terminator: ir.Operation, value: ir.Value, destination: Buffer, block: ir.Block) -> None:
        """Makes `value` end up in `destination`: by computing it there if possible, by a copy otherwise."""
        source = self.buffer(value)
        if source.home != "arena" or source.block != block or not self._of[value].view.is_whole:
            self._copy(terminator, value, TensorLocation(destination, BufferView.of(shape_of(value))))
            return
        source.merged_into = destination
        if destination.first < 0:
            destination.first = source.first
        self._touch(destination)

    def _copy(self, op: ir.Operation, value: ir.Value, destination: TensorLocation) -> None:
        if not self._of[value].view.is_contiguous:
            raise PassError(f"'{op.name}' op copies a view whose elements are not contiguous", op.location)
        self._require_current(op, value)
        self._record(op, BufferCopy(self._of[value], destination, value.type))

    def _record(self, op: ir.Operation, copy: BufferCopy) -> None:
        self.before.setdefault(op, []).append(copy)
        self._step(op, [copy.source.buffer.root(), copy.destination.buffer.root()])

    def _step(self, op: ir.Operation, buffers: Sequence[Buffer]) -> int:
        self._now += 1
        self.steps[op] = self._now
        for buffer in buffers:
            self._touch(buffer)
        return self._now

    def _touch(self, buffer: Buffer) -> None:
        if buffer.first < 0:
            buffer.first = self._now
        buffer.last = self._now

    def _put(self, value: ir.Value, buffer: Buffer) -> None:
        self._of[value] = TensorLocation(buffer, BufferView.of(shape_of(value)))

    def _new(self, kind: ir.Type, block: ir.Block, label: str, node: str = "") -> Buffer:
        buffer = Buffer(byte_size(kind), block=block, label=label, node=node)
        self._buffers.append(buffer)
        return buffer

    def _argument(self, kind: ir.Type, group: str, index: int) -> Buffer:
        return Buffer(byte_size(kind), "argument", group=group, index=index)

    def _parameter(self, op: ir.Operation) -> Buffer:
        name = ir.StringAttr(op.attributes["name"]).value
        self.parameters.setdefault(name, op.results[0].type)
        return self._argument(op.results[0].type, "parameters", list(self.parameters).index(name))


def _node(call: ir.Operation) -> str:
    """The last node of the model that a call computes."""
    names = discardable.OPS.read(call)
    return names[-1] if names else ""


def _made_by(value: ir.Value, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


def _part(whole: TensorLocation, op: ir.Operation, part: ir.Value) -> TensorLocation:
    """The part of a tensor that a slicing op reads or writes."""
    index, shape = row_index(op), shape_of(part)
    return replace(whole, view=whole.view.part(box_of(op), shape) if index is None else whole.view.row(index, shape))


def _tensors_of(op: ir.Operation) -> list[ir.Value]:
    """The operands and results of an op that are tensors."""
    return [value for value in [*op.operands, *op.results] if is_tensor(value)]


_TERMINATORS = frozenset({"scf.yield", "scf.condition"})
# Most ops belong to MLIR's own dialects, to which no interface can be attached.
_RULES: dict[str, Callable[[BufferAnalysis, ir.Operation, ir.Block], None]] = {
    **dict.fromkeys(ALIASES, BufferAnalysis._visit_alias),
    **dict.fromkeys(CONSTANTS, BufferAnalysis._visit_constant),
    EXTRACT: BufferAnalysis._visit_extract_slice,
    INSERT: BufferAnalysis._visit_insert_slice,
    "func.call": BufferAnalysis._visit_call,
    "func.return": BufferAnalysis._visit_return,
    "scf.for": BufferAnalysis._visit_for,
    "scf.if": BufferAnalysis._visit_if,
    "scf.while": BufferAnalysis._visit_while,
    "stepwell.parameter": BufferAnalysis._visit_parameter,
    "tensor.empty": BufferAnalysis._visit_empty,
    "tensor.extract": BufferAnalysis._visit_extract,
    "tensor.from_elements": BufferAnalysis._visit_from_elements,
}
