"""What four warps of a Hopper GPU do together: products of matrices in shared memory (wgmma), and sharing registers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, scf

from .instructions import assembly
from .integers import Int, constant
from .loops import when

GROUP, LINE = 128, 128
"""Threads of a warp group; bytes of a swizzled line."""
ALIGNMENT = 1024
"""The copy engine's swizzle repeats after so many bytes, from addresses that are multiples of them."""
STEP_BYTES = 32
"""Bytes of depth that one product takes of a line along depth."""
_SWIZZLE_128 = 1 << 62
_GROUP_OF_LINES = 8 * LINE
# Registers per thread of the group that copies, and of those that multiply, by the number of these; a single one has
# as many as an instruction can name without taking any.
_REGISTERS = {2: (40, 232), 3: (32, 160)}
# Groups take their turns at barriers from this one on: 0 is that of all threads.
_FIRST_TURN = 1


def matrix_descriptor(address: Int, panel_bytes: int) -> ir.Value:
    """What a product is told of a matrix in shared memory: lines of 128 bytes, swizzled, in groups of eight.

    Args:
        address: of its first element; groups of eight lines begin at multiples of 1024.
        panel_bytes: for lines along rows, how far the next 128 bytes of rows lie; else of no meaning.
    """
    fixed = _SWIZZLE_128 | (_GROUP_OF_LINES >> 4) << 32 | (panel_bytes >> 4) << 16
    start = ((address & 0x3FFFF) >> 4).wide()
    return arith.ori(start, constant(fixed, 64))


def specialised(thread: Int, groups: int, copy: Callable[[], None], multiply: Callable[[], None]) -> None:
    """Builds what the first warp group of a block does, and what the others do, who take over its registers.

    Args:
        thread: the thread's number in the block.
        groups: how many others there are, 1 to 3.
        copy: builds what the first one does.
        multiply: builds what the others do.
    """
    shared_out = _REGISTERS.get(groups)
    role = scf.IfOp(thread.below(GROUP), has_else=True)
    with ir.InsertionPoint(role.then_block):
        if shared_out is not None:
            assembly(f"setmaxnreg.dec.sync.aligned.u32 {shared_out[0]};", [], [])
        copy()
        scf.yield_([])
    assert role.else_block is not None
    with ir.InsertionPoint(role.else_block):
        if shared_out is not None:
            assembly(f"setmaxnreg.inc.sync.aligned.u32 {shared_out[1]};", [], [])
        multiply()
        scf.yield_([])


def multiply_group(
    form: str,
    lhs: ir.Value | Sequence[Sequence[ir.Value]],
    rhs: ir.Value,
    steps: Sequence[tuple[int, int]],
    sums: Sequence[ir.Value] | None,
    turned: tuple[bool, bool] | None,
) -> list[ir.Value]:
    """Starts products of two matrices and closes their group.

    Args:
        form: the instruction's shape and types, such as `m64n256k16.f32.bf16.bf16`.
        lhs: descriptor of the left-hand side in shared memory; or for each product its four registers.
        rhs: descriptor of the right-hand side, in shared memory.
        steps: for each product, by how many bytes it reads after the start of both.
        sums: the registers that are added to, as the PTX ISA lays them out over the warp group; None: zeros.
        turned: whether the lines of each run along rows; None for types that know no such thing.

    Returns:
        The new sums; not to be touched before they have been awaited.
    """
    kind, letter = (ir.IntegerType.get_signless(32), "r") if ".s32." in form else (ir.F32Type.get(), "f")
    count = int(re.findall(r"n(\d+)", form)[0]) // 2
    registers = ", ".join(f"${place}" for place in range(count))
    in_registers = not isinstance(lhs, ir.Value)
    lefts = [item for group in lhs for item in group] if in_registers else [lhs]
    signs = ", 1, 1" if letter == "f" else ""
    majors = "" if turned is None else "".join(f", {int(side)}" for side in turned[in_registers:])
    lines = ["{", ".reg .pred p;", ".reg .b64 a, b;", "wgmma.fence.sync.aligned;"]
    lines.append(f"setp.{'ne' if sums is None else 'eq'}.u32 p, 0, 0;")
    for number, (left, right) in enumerate(steps):
        first = ", ".join(f"${count + 1 + 4 * number + place}" for place in range(4))
        lines.append(f"add.s64 b, ${count}, {right >> 4};")
        if not in_registers:
            lines.append(f"add.s64 a, ${count + 1}, {left >> 4};")
        factor = f"{{{first}}}" if in_registers else "a"
        lines.append(f"wgmma.mma_async.sync.aligned.{form} {{{registers}}}, {factor}, b, p{signs}{majors};")
        if sums is None and number == 0:
            lines.append("setp.eq.u32 p, 0, 0;")
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    tied = [] if sums is None else list(sums)
    constraints = [*[f"={letter}"] * count, "l", *("r" if in_registers else "l" for _ in lefts)]
    constraints += map(str, range(len(tied)))
    return assembly("\n".join(lines), [rhs, *lefts, *tied], constraints, [kind] * count)


def await_products(pending: int, values: Sequence[ir.Value] = ()) -> list[ir.Value]:
    """Waits until at most `pending` groups of products are under way.

    Args:
        pending: how many.
        values: f32 registers that must not be touched before, by the compiler neither.

    Returns:
        The registers.
    """
    count = len(values)
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return assembly(text, values, [*["=f"] * count, *map(str, range(count))], [value.type for value in values])


class Turns:
    """The turns that warp groups take, one after the other, each waiting at a barrier of its own."""

    def __init__(self, group: Int, groups: int) -> None:
        """Prepares for one of so many groups; there are no turns where it is the only one."""
        self._group, self._last = group, groups - 1

    def begin(self) -> None:
        """The last group lets the first one begin."""
        if self._last:
            with when(self._group.equals(self._last)):
                _pass_to(Int(0))

    def take(self) -> None:
        """Waits for the group's turn."""
        if self._last:
            _await(self._group)

    def pass_on(self) -> None:
        """Lets the next group have its turn."""
        if self._last:
            _pass_to(Int(0).where(self._group.equals(self._last), self._group + 1))

    def end(self) -> None:
        """The first group takes the last turn, so that nobody is left at a barrier."""
        if self._last:
            with when(self._group.equals(0)):
                _await(Int(0))


def _pass_to(group: Int) -> None:
    assembly(f"barrier.cta.arrive.aligned $0, {2 * GROUP};", [(group + _FIRST_TURN).ir], ["r"])


def _await(group: Int) -> None:
    assembly(f"barrier.cta.sync.aligned $0, {2 * GROUP};", [(group + _FIRST_TURN).ir], ["r"])
