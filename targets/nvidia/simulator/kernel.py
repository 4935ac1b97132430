"""Preparation of an entry for simulation: memory layout, and translation of every instruction into a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ....machines.gpus import CAPABILITIES
from ....runtime.cuda.errors import PtxError
from ....support.wording import quantity
from .addresses import PARAM_ORIGIN
from .builder import Builder, Environment, SimulatedStep, Sync, storage_of
from .frame import Frame
from .graph import Block, blocks_of, effects
from .kinds import Array
from .product_registers import check_product_registers
from .syntax import WIDTHS, Instruction, PtxEntry, PtxModule, Register, Variable

_SPACES = ("global", "shared", "local", "param", "const")
_TERMINATORS = ("bra", "brx", "ret", "exit")

Ways = list[tuple[int | None, Array | None]]
"""Targets of threads: the rank of a block (None: they end), and a mask of the threads (None: all)."""


@dataclass
class KernelSegment:
    """Steps that run without waiting, except possibly at the start.

    Attributes:
        sync: synchronization before the steps, at which threads may wait.
        steps: the steps.
        instructions: instructions of the steps, for messages.
    """

    sync: Sync | None = None
    steps: list[SimulatedStep] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class Code:
    """A prepared basic block.

    Attributes:
        parts: the parts in sequence.
        leave: returns the targets of the threads at the end of the block.
        writes: the registers that the block writes.
        live: those of them that later blocks may read.
    """

    parts: list[KernelSegment]
    leave: Callable[[Frame], Ways]
    writes: frozenset[str]
    live: frozenset[str]


class PreparedKernel:
    """A prepared entry.

    Attributes:
        function: the entry.
        codes: its blocks by rank.
        shared_bytes: static shared memory per block.
        local_bytes: local memory per thread.
        parameter_bytes: size of all parameters.
        shared_granule: lower bound of the width of accesses to shared memory.
        global_granule: lower bound of the width of writes to global memory.
        multiprocessors: number of multiprocessors of the GPU that the code is for.
    """

    def __init__(self, module: PtxModule, function: PtxEntry, variables: Mapping[str, int]) -> None:
        """Lays out memory and builds all steps.

        Args:
            module: the module of the entry.
            function: the entry.
            variables: addresses of the module's variables in global and constant memory.

        Raises:
            PtxError: it uses something that the simulator does not support.
        """
        if module.target not in CAPABILITIES:
            raise PtxError(f"unknown target '{module.target}'; known are {', '.join(CAPABILITIES)}")
        self.multiprocessors = CAPABILITIES[module.target].multiprocessors
        self.function = function
        declared = [*module.variables, *function.variables]
        addresses = dict(variables)
        spaces = {variable.name: variable.space for variable in (*declared, *function.parameters)}
        addresses |= _laid_out([item for item in declared if item.space == "shared" and item.bytes])
        self.shared_bytes = _end(declared, addresses, "shared")
        for item in declared:
            if item.space == "shared" and not item.bytes:
                # Dynamic shared memory starts here; all variables of unknown size refer to it.
                addresses[item.name] = self.shared_bytes = _round_up(self.shared_bytes, max(item.align, 16))
        addresses |= _laid_out([item for item in declared if item.space == "local"])
        self.local_bytes = _end(declared, addresses, "local")
        self.offsets = _laid_out(function.parameters)
        addresses |= {name: PARAM_ORIGIN + offset for name, offset in self.offsets.items()}
        self.parameter_bytes = max((self.offsets[item.name] + item.bytes for item in function.parameters), default=0)
        self.environment = Environment(function, addresses, spaces)
        self.shared_granule = _narrowest(function, "shared", "ld", "st")
        self.global_granule = _narrowest(function, "global", "st")
        blocks = blocks_of(function)
        check_product_registers(blocks)
        ranks = [block.order for block in blocks]
        self.codes = [self._code(block, ranks) for block in sorted(blocks, key=lambda block: block.order)]

    def storage(self, name: str) -> np.dtype:
        """Returns the type of a register's array."""
        probe = Builder(self.function.body[0], self.environment)
        return storage_of(name, self.function, probe)

    def _code(self, block: Block, ranks: list[int]) -> Code:
        parts, writes = [KernelSegment()], set()
        last = block.instructions[-1]
        ends = last.opcode in _TERMINATORS
        for instruction in block.instructions[: -1 if ends else None]:
            built = Builder(instruction, self.environment).build()
            writes |= effects(instruction).writes
            if isinstance(built, Sync):
                parts.append(KernelSegment(built))
            else:
                parts[-1].steps.append(built)
            parts[-1].instructions.append(instruction)
        successors = [ranks[successor] for successor in block.successors]
        if ends:
            parts[-1].instructions.append(last)
        leave = _leave(last, successors)
        return Code(parts, leave, frozenset(writes), frozenset(writes) & block.live_out)


def _leave(last: Instruction, successors: list[int]) -> Callable[[Frame], Ways]:
    """Returns a function that determines the targets of threads at the end of a block."""
    if last.opcode == "brx":
        return _jump(last, successors)
    if last.opcode not in _TERMINATORS:
        return lambda frame: [(successors[0], None)]
    target = None if last.opcode in ("ret", "exit") else successors[0]
    if last.predicate is None:
        return lambda frame: [(target, None)]
    name, negated, following = last.predicate.name, last.predicate.negated, successors[-1]

    def leave(frame: Frame) -> Ways:
        taken = ~frame[name] if negated else frame[name]
        count = int(np.count_nonzero(taken))
        if count == frame.count:
            return [(target, None)]
        if count == 0:
            return [(following, None)]
        return [(target, taken), (following, ~taken)]

    return leave


def _jump(last: Instruction, successors: list[int]) -> Callable[[Frame], Ways]:
    index = last.operands[0]
    if last.predicate is not None or not isinstance(index, Register):
        raise PtxError(f"{last.name} is not supported in this form", last.line)
    name = index.name

    def leave(frame: Frame) -> Ways:
        values = frame[name]
        if int(values.max()) >= len(successors):
            raise PtxError(f"{last.name} exceeds its table of {quantity(len(successors), 'label')}", last.line)
        return [(successors[int(value)], values == value) for value in np.unique(values)]

    return leave


def _narrowest(function: PtxEntry, space: str, *opcodes: str) -> int:
    """Returns the width of the narrowest access to a state space as far as it is known statically, at most 4 bytes."""
    widths = [4]
    for instruction in function.body:
        named = [word for word in instruction.modifiers if word.split("::")[0] in _SPACES]
        if instruction.opcode in opcodes and (not named or named[0].split("::")[0] == space):
            widths.append(WIDTHS[[word for word in instruction.modifiers if word in WIDTHS][-1]])
    return min(widths)


def _laid_out(variables: list[Variable]) -> dict[str, int]:
    """Assigns consecutive addresses, from 0, to variables."""
    places, end = {}, 0
    for variable in variables:
        start = _round_up(end, variable.align)
        places[variable.name], end = start, start + variable.bytes
    return places


def _end(variables: list[Variable], addresses: Mapping[str, int], space: str) -> int:
    held = [addresses[item.name] + item.bytes for item in variables if item.space == space and item.bytes]
    return max(held, default=0)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
