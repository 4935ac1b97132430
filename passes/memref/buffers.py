"""Which buffer every tensor of `@main` lives in, and when: the analysis under `stepwell-plan-memory`.

A call of a kernel writes one buffer of its own per result. Reshapes and casts are other views of their operand's
buffer. What a branch yields is written straight into the buffer of the `scf.if` result, and what `@main` returns
straight into the output, wherever the buffer is not promised to something else already; otherwise there is a copy. A
loop carries its tensors in buffers that are copied into at the end of every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from ..base import PassError
from .layout import byte_size

ALIASES = frozenset(
    {
        "builtin.unrealized_conversion_cast",
        "stepwell.reshape",
        "tensor.bitcast",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.reshape",
    }
)
CONSTANTS = frozenset({"arith.constant", "stepwell.constant"})


@dataclass(eq=False)
class Buffer:
    """Memory for one or more tensors.

    Attributes:
        size: bytes.
        home: where it is: "arena", "argument" (of `@main`: an input, a parameter or an output) or "constant".
        block: the block that it is local to, while nothing outside of it has a claim on it.
        label: what makes its contents, for reports.
        index: the position of the argument, counted in its group.
        group: "inputs", "outputs" or "parameters", for an argument.
        constant: the op that holds the contents of a constant.
        first: the first step that writes it.
        last: the last step that uses it.
    """

    size: int
    home: str = "arena"
    block: ir.Block | None = None
    label: str = ""
    index: int = 0
    group: str = ""
    constant: ir.Operation | None = None
    first: int = -1
    last: int = -1
    merged_into: Buffer | None = field(default=None, repr=False)

    def root(self) -> Buffer:
        """The buffer that this one became part of."""
        return self if self.merged_into is None else self.merged_into.root()


@dataclass(frozen=True)
class Copy:
    """Contents that have to be moved from one buffer to another."""

    source: Buffer
    destination: Buffer
    kind: ir.Type


class BufferAnalysis:
    """Assigns buffers to the tensors of a function.

    Attributes:
        parameters: the types of the parameters by name, in order of first use.
        callees: the names of the kernels, in order of their first call.
        steps: the step at which an op runs, for those that use memory.
        before: the copies to make before an op: calls, loops and terminators.
    """

    def __init__(self, function: ir.Operation) -> None:
        """Analyses `function`.

        Raises:
            PassError: an op is none of those that `@main` may hold at this level, or a shape is not static.
        """
        self.parameters: dict[str, ir.Type] = {}
        self.callees: dict[str, None] = {}
        self.steps: dict[ir.Operation, int] = {}
        self.before: dict[ir.Operation, list[Copy]] = {}
        self._buffers: list[Buffer] = []
        self._of: dict[ir.Value, Buffer] = {}
        self._now = 0
        body = function.regions[0].blocks[0]
        for index, argument in enumerate(body.arguments):
            self._of[argument] = self._argument(argument.type, "inputs", index)
        self._visit_block(body)

    def buffer(self, value: ir.Value) -> Buffer:
        """The buffer of a tensor."""
        return self._of[value].root()

    def arena_buffers(self) -> list[Buffer]:
        """What has to be placed in the arena."""
        return [item for item in self._buffers if item.merged_into is None and item.home == "arena" and item.first >= 0]

    def _visit_block(self, block: ir.Block) -> None:
        for op in block.operations:
            self._visit(op.operation, block)

    def _visit(self, op: ir.Operation, block: ir.Block) -> None:
        tensors = [value for value in [*op.operands, *op.results] if is_tensor(value)]
        if op.name in ALIASES and tensors:
            self._of[op.results[0]] = self._of[op.operands[0]]
        elif op.name == "tensor.empty":
            self._of[op.results[0]] = self._new(op.results[0].type, block, "empty")
        elif op.name == "func.call":
            self._visit_call(op, block)
        elif op.name == "stepwell.parameter":
            self._of[op.results[0]] = self._parameter(op)
        elif op.name in CONSTANTS and tensors:
            self._of[op.results[0]] = Buffer(byte_size(op.results[0].type), "constant", constant=op)
        elif op.name == "tensor.extract":
            self._step(op, [self.buffer(op.operands[0])])
        elif op.name == "scf.if":
            self._visit_if(op, block)
        elif op.name == "scf.for":
            self._visit_for(op, block)
        elif op.name == "func.return":
            self._visit_return(op, block)
        elif tensors and op.name != "scf.yield":
            raise PassError(f"'{op.name}' op works on tensors in @main outside of every kernel", op.location)

    def _visit_call(self, op: ir.Operation, block: ir.Block) -> None:
        inputs = len(op.operands) - len(op.results)
        reads = [self.buffer(value) for value in list(op.operands)[:inputs]]
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        self.callees[callee] = None
        for result, destination in zip(op.results, list(op.operands)[inputs:], strict=True):
            self._of[result] = self._new(result.type, block, callee)
            if not _is_empty(destination):
                self._copy(op, destination, self._of[result])
        self._step(op, [*reads, *(self.buffer(result) for result in op.results)])

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
            self._of[op.results[index]] = buffer

    def _visit_for(self, op: ir.Operation, block: ir.Block) -> None:
        body = op.regions[0].blocks[0]
        arguments, initial = list(body.arguments)[1:], list(op.operands)[3:]
        carried = {index: self._new(item.type, block, "for") for index, item in enumerate(arguments) if is_tensor(item)}
        for index, buffer in carried.items():
            self._of[arguments[index]] = self._of[op.results[index]] = buffer
            if not _is_empty(initial[index]):
                self._copy(op, initial[index], buffer)
        start = self._step(op, list(carried.values()))
        self._visit_block(body)
        self._carry_over(list(body.operations)[-1].operation, carried, body)
        for buffer in self._buffers:
            # What was there before the loop and is read in it has to outlive the last round.
            if buffer.first <= start <= buffer.last:
                buffer.last = max(buffer.last, self._now)

    def _carry_over(self, terminator: ir.Operation, carried: dict[int, Buffer], body: ir.Block) -> None:
        """Copies what a round yields to where the next one reads it, first out of the way where the loop permutes."""
        moving = {
            index: buffer for index, buffer in carried.items() if self.buffer(terminator.operands[index]) is not buffer
        }
        late = []
        for index, buffer in moving.items():
            value = terminator.operands[index]
            if self.buffer(value) in carried.values():
                aside = self._new(value.type, body, "for")
                self._copy(terminator, value, aside)
                late.append(Copy(aside, buffer, value.type))
        for index, buffer in moving.items():
            if self.buffer(terminator.operands[index]) not in carried.values():
                self._copy(terminator, terminator.operands[index], buffer)
        for copy in late:
            self._record(terminator, copy)
        self._step(terminator, list(carried.values()))

    def _visit_return(self, op: ir.Operation, block: ir.Block) -> None:
        for index, value in enumerate(op.operands):
            output = self._argument(value.type, "outputs", index)
            self._deliver(op, value, output, block)

    def _deliver(self, terminator: ir.Operation, value: ir.Value, destination: Buffer, block: ir.Block) -> None:
        """Gets `value` into `destination`: by making it there in the first place where that is possible."""
        source = self.buffer(value)
        if source.home != "arena" or source.block != block:
            self._copy(terminator, value, destination)
            return
        source.merged_into = destination
        if destination.first < 0:
            destination.first = source.first
        self._touch(destination)

    def _copy(self, op: ir.Operation, value: ir.Value, destination: Buffer) -> None:
        self._record(op, Copy(self.buffer(value), destination, value.type))

    def _record(self, op: ir.Operation, copy: Copy) -> None:
        self.before.setdefault(op, []).append(copy)
        self._step(op, [copy.source, copy.destination])

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

    def _new(self, kind: ir.Type, block: ir.Block, label: str) -> Buffer:
        buffer = Buffer(byte_size(kind), block=block, label=label)
        self._buffers.append(buffer)
        return buffer

    def _argument(self, kind: ir.Type, group: str, index: int) -> Buffer:
        return Buffer(byte_size(kind), "argument", group=group, index=index)

    def _parameter(self, op: ir.Operation) -> Buffer:
        name = ir.StringAttr(op.attributes["name"]).value
        self.parameters.setdefault(name, op.results[0].type)
        return self._argument(op.results[0].type, "parameters", list(self.parameters).index(name))


def is_tensor(value: ir.Value) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def _is_empty(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty"
