"""Detection of premature accesses to registers of asynchronous products (`wgmma`), on any path through an entry.

Between `wgmma.mma_async` and the `wgmma.wait_group` for its group, a device may still write the results and read the
registers of the left factor. It may also start before earlier instructions have written these registers, unless a
`wgmma.fence` intervenes. The simulator computes products immediately and cannot observe this, so the code is analysed.

Copies between registers count as renaming: assemblers remove them, unless they have to wait anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....runtime.cuda.errors import PtxError
from .graph import Block, effects, registers_of
from .syntax import Immediate, Instruction, Register, Vector


@dataclass
class _State:
    """Possible state at a point of the code.

    Attributes:
        results: result registers that may be incomplete, with the number of groups committed since; 0: not even their
            own.
        factors: left-factor registers that may still be read, likewise.
        written: registers written since the last fence.
        is_fenced: whether all paths to this point have a fence.
    """

    results: dict[str, int] = field(default_factory=dict)
    factors: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    is_fenced: bool = False

    def copy(self) -> _State:
        return _State(dict(self.results), dict(self.factors), set(self.written), self.is_fenced)

    def joined(self, other: _State) -> _State:
        """Returns the union of the states of two paths that join."""
        made = self.copy()
        for mine, theirs in ((made.results, other.results), (made.factors, other.factors)):
            mine |= {name: min(age, mine.get(name, age)) for name, age in theirs.items()}
        return _State(made.results, made.factors, made.written | other.written, self.is_fenced and other.is_fenced)


def check_product_registers(blocks: Sequence[Block]) -> None:
    """Analyses the code of an entry, which starts at the first block.

    Raises:
        PtxError: a register is accessed too early; names the register and the line.
    """
    if not any(item.has("mma_async") for block in blocks for item in block.instructions):
        return
    before: dict[int, _State] = {0: _State()}
    pending = [0]
    while pending:
        number = pending.pop()
        state = before[number].copy()
        for instruction in blocks[number].instructions:
            _update(instruction, state)
        for successor in blocks[number].successors:
            known = before.get(successor)
            joined = state if known is None else known.joined(state)
            if joined != known:
                before[successor] = joined
                pending.append(successor)


def _update(instruction: Instruction, state: _State) -> None:
    """Updates the state by an instruction."""
    if instruction.opcode == "wgmma":
        _update_by_product(instruction, state)
        return
    operands = instruction.operands
    if instruction.opcode == "mov" and instruction.predicate is None and _are_registers(operands):
        target, source = (item.name for item in operands if isinstance(item, Register))
        for held in (state.results, state.factors):
            held.pop(target, None)
            if source in held:
                held[target] = held[source]
        (state.written.add if source in state.written else state.written.discard)(target)
        return
    found = effects(instruction)
    _reject(found.reads | found.writes, state.results, "a product's result, which may be incomplete", instruction)
    _reject(found.writes, state.factors, "a product's left factor, which may still be read", instruction)
    state.written |= found.writes


def _update_by_product(instruction: Instruction, state: _State) -> None:
    if instruction.has("fence"):
        state.written, state.is_fenced = set(), True
    elif instruction.has("commit_group"):
        for held in (state.results, state.factors):
            held.update({name: age + 1 for name, age in held.items()})
    elif instruction.has("wait_group"):
        (pending,) = instruction.operands
        count = int(pending.value) if isinstance(pending, Immediate) else 0
        state.results = {name: age for name, age in state.results.items() if age <= count}
        state.factors = {name: age for name, age in state.factors.items() if age <= count}
    else:
        _start_product(instruction, state)


def _start_product(instruction: Instruction, state: _State) -> None:
    """Updates the state by the start of a product."""
    results, left = (set(registers_of(item)) for item in instruction.operands[:2])
    factors = left if isinstance(instruction.operands[1], Vector) else set()
    _reject(factors, state.results, "another product's result, which may be incomplete", instruction)
    early = sorted((results | factors) & state.written)
    if early or not state.is_fenced:
        what = f"the write of {early[0]}" if early else "earlier writes"
        raise PtxError(f"{instruction.name} may not see {what}: wgmma.fence is missing", instruction.line)
    state.results |= dict.fromkeys(results, 0)
    state.factors |= dict.fromkeys(factors, 0)


def _are_registers(operands: Sequence[object]) -> bool:
    return len(operands) == 2 and all(isinstance(item, Register) for item in operands)


def _reject(touched: Iterable[str], held: dict[str, int], what: str, instruction: Instruction) -> None:
    early = sorted(name for name in touched if name in held)
    if early:
        raise PtxError(
            f"{instruction.name} accesses {early[0]}, {what}: wgmma.wait_group is missing between", instruction.line
        )
