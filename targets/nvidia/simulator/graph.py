"""Control flow of an entry: basic blocks, an order in which diverged threads reconverge, and live registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ....runtime.cuda.errors import PtxError
from .syntax import Address, Instruction, PtxEntry, PtxOperand, Register, Symbol, Vector

_ENDS = ("bra", "brx", "ret", "exit", "trap")
_NO_DESTINATION = (
    "st", "red", "bra", "brx", "bar", "barrier", "membar", "fence", "cp", "ret", "exit", "trap", "prefetch",
    "prefetchu", "nanosleep", "griddepcontrol", "setmaxnreg", "stmatrix", "discard", "applypriority", "tensormap",
    "pmevent", "brkpt", "stackrestore",
)  # fmt: skip


@dataclass
class Block:
    """A basic block: instructions that are executed in sequence.

    Attributes:
        instructions: the instructions; a branch can only be the last.
        successors: numbers of the blocks that may follow: the branch targets first, the next block last.
        order: rank of the block; threads in blocks of low rank run first, so that those of higher rank wait for them.
        live_out: registers that later blocks may read.
    """

    instructions: list[Instruction]
    successors: tuple[int, ...] = ()
    order: int = 0
    live_out: frozenset[str] = frozenset()


@dataclass
class Effects:
    """Registers that an instruction reads, and registers that it may write."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


def blocks_of(function: PtxEntry) -> list[Block]:
    """Returns the basic blocks of an entry; control enters at the first."""
    body = function.body
    starts = {0, *function.labels.values()}
    starts.update(place + 1 for place, instruction in enumerate(body) if instruction.opcode in _ENDS)
    bounds = [*sorted(start for start in starts if start < len(body)), len(body)]
    number = {start: index for index, start in enumerate(bounds)}
    blocks = [Block(body[start:end]) for start, end in pairwise(bounds)]
    for index, block in enumerate(blocks):
        block.successors = _successors(function, block, index, number)
    _set_order(blocks)
    _set_live_out(blocks)
    return blocks


def _successors(function: PtxEntry, block: Block, index: int, number: dict[int, int]) -> tuple[int, ...]:
    last = block.instructions[-1]
    falls = () if last.opcode in _ENDS and last.predicate is None else (index + 1,)
    if falls and index + 1 >= len(number) - 1:
        raise PtxError(f"{function.name} does not end with ret", last.line)
    if last.opcode in ("ret", "exit", "trap"):
        return falls
    if last.opcode not in ("bra", "brx"):
        return (index + 1,)
    target = last.operands[-1]
    names = function.targets.get(target.name) if isinstance(target, Symbol) and last.opcode == "brx" else None
    labels = names if names is not None else [target.name] if isinstance(target, Symbol) else []
    unknown = [label for label in labels if label not in function.labels]
    if not labels or unknown:
        raise PtxError(f"{last.name} has an undefined target: {target}", last.line)
    return (*(number[function.labels[label]] for label in labels), *falls)


def _set_order(blocks: Sequence[Block]) -> None:
    """Assigns a weak topological order (Bourdoncle): the blocks of a loop come before those that follow it."""
    order: list[int] = []
    _arrange(blocks, list(range(len(blocks))), [0], order)
    unreachable = [index for index in range(len(blocks)) if index not in set(order)]
    for rank, index in enumerate([*order, *unreachable]):
        blocks[index].order = rank


def _arrange(blocks: Sequence[Block], members: Sequence[int], roots: Sequence[int], order: list[int]) -> None:
    allowed = set(members)
    for component in reversed(list(_components(blocks, allowed, roots))):
        if len(component) == 1:
            order.append(component[0])
            continue
        head, rest = component[0], component[1:]
        order.append(head)
        inside = set(rest)
        entries = [block for block in blocks[head].successors if block in inside]
        _arrange(blocks, rest, [*entries, *rest], order)


def _components(blocks: Sequence[Block], allowed: set[int], roots: Sequence[int]) -> Iterator[list[int]]:
    """Yields strongly connected components of a subset (Tarjan), in reverse order, each with its entry first."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in roots:
        if root in index or root not in allowed:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        _push(root, blocks, index, low, stack, on_stack, work)
        while work:
            node, following = work[-1]
            advanced = False
            for successor in following:
                if successor not in allowed:
                    continue
                if successor not in index:
                    _push(successor, blocks, index, low, stack, on_stack, work)
                    advanced = True
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                place = stack.index(node)
                component = stack[place:]
                del stack[place:]
                on_stack.difference_update(component)
                yield component


def _push(
    node: int,
    blocks: Sequence[Block],
    index: dict[int, int],
    low: dict[int, int],
    stack: list[int],
    on_stack: set[int],
    work: list[tuple[int, Iterator[int]]],
) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)
    work.append((node, iter(blocks[node].successors)))


def effects(instruction: Instruction) -> Effects:
    """Returns the registers that an instruction reads and writes."""
    found = Effects()
    operands = list(instruction.operands)
    if instruction.predicate is not None:
        found.reads.add(instruction.predicate.name)
    writes = instruction.opcode not in _NO_DESTINATION and operands and not isinstance(operands[0], Address)
    if writes:
        found.writes.update(registers_of(operands[0]))
        if instruction.predicate is not None or instruction.opcode == "wgmma":
            found.reads.update(found.writes)
        operands = operands[1:]
    for operand in operands:
        found.reads.update(registers_of(operand))
    return found


def registers_of(operand: PtxOperand | None) -> Iterator[str]:
    """Yields the names of all registers in an operand."""
    if isinstance(operand, Register):
        if operand.name != "_":
            yield operand.name
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_of(item)
    elif isinstance(operand, Address):
        yield from registers_of(operand.base)
        yield from registers_of(operand.coordinates)


def _set_live_out(blocks: Sequence[Block]) -> None:
    numbers: dict[str, int] = {}
    reads, kills = [], []
    for block in blocks:
        exposed = killed = 0
        for instruction in block.instructions:
            found = effects(instruction)
            exposed |= _bits(found.reads, numbers) & ~killed
            if instruction.predicate is None:
                killed |= _bits(found.writes, numbers)
        reads.append(exposed)
        kills.append(killed)
    live_in, live_out = [0] * len(blocks), [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for index in sorted(range(len(blocks)), key=lambda index: -blocks[index].order):
            out = 0
            for successor in blocks[index].successors:
                out |= live_in[successor]
            into = reads[index] | (out & ~kills[index])
            if out != live_out[index] or into != live_in[index]:
                live_out[index], live_in[index], changed = out, into, True
    names = list(numbers)
    for block, bits in zip(blocks, live_out, strict=True):
        block.live_out = frozenset(_named(bits, names))


def _bits(registers: set[str], numbers: dict[str, int]) -> int:
    total = 0
    for name in registers:
        total |= 1 << numbers.setdefault(name, len(numbers))
    return total


def _named(bits: int, names: Sequence[str]) -> Iterator[str]:
    digits = bin(bits)[:1:-1]
    return (names[place] for place, digit in enumerate(digits) if digit == "1")
