"""Operations of Hopper's warp groups: matrix products from shared memory (wgmma), and redistribution of registers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, scf

from .inline_ptx import assembly
from .integers import Int, constant
from .loops import when

GROUP, LINE = 128, 128
"""Threads per warp group; bytes of a swizzled line."""
ALIGNMENT = 1024
"""Period in bytes of the copy engine's swizzle; tiles start at multiples of it."""
STEP_BYTES = 32
"""Bytes along depth that one product takes from a line along depth."""
_SWIZZLE_128 = 1 << 62
"""Swizzle of 128 bytes, in bits 62 and 63 (PTX ISA, "Matrix Descriptor Format")."""
_GROUP_OF_LINES = 8 * LINE
# Registers per thread of the copying group, and of the multiplying groups, by the number of the latter. A single
# multiplying group needs no redistribution: it already has as many registers as an instruction can name.
_REGISTERS = {2: (40, 232), 3: (32, 160)}
# Number of the first barrier at which groups take turns; 0 is the barrier of all threads.
_FIRST_TURN = 1


def matrix_descriptor(address: Int, panel_bytes: int) -> ir.Value:
    """Returns the wgmma descriptor of a matrix in shared memory: swizzled lines of 128 bytes in groups of eight.

    Args:
        address: address of its first element; groups of eight lines start at multiples of 1024 bytes.
        panel_bytes: for lines along rows, distance in bytes to the next 128 bytes of rows; ignored otherwise.
    """
    fixed = _SWIZZLE_128 | (_GROUP_OF_LINES >> 4) << 32 | (panel_bytes >> 4) << 16
    start = ((address & 0x3FFFF) >> 4).wide()
    return arith.ori(start, constant(fixed, 64))


def specialised(thread: Int, groups: int, copy: Callable[[], None], multiply: Callable[[], None]) -> None:
    """Builds the code of a block's first warp group and of the others, which take over registers of the first.

    Args:
        thread: index of the thread in the block.
        groups: number of the other groups, 1 to 3.
        copy: builds the code of the first group.
        multiply: builds the code of the other groups.
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
    transposed: tuple[bool, bool] | None,
) -> list[ir.Value]:
    """Starts a group of matrix products and commits it.

    Args:
        form: the instruction's shape and types, such as `m64n256k16.f32.bf16.bf16`.
        lhs: descriptor of the left-hand side in shared memory, or its four registers for each product.
        rhs: descriptor of the right-hand side in shared memory.
        steps: for each product, its byte offsets from the start of both sides.
        sums: accumulators with the register layout of the PTX ISA; None to start from zeros.
        transposed: whether each side is transposed (its lines run along rows); None for types without that option.

    Returns:
        The new sums, which must not be used before `await_products`.
    """
    kind, letter = (ir.IntegerType.get_signless(32), "r") if ".s32." in form else (ir.F32Type.get(), "f")
    count = int(re.findall(r"n(\d+)", form)[0]) // 2
    registers = ", ".join(f"${place}" for place in range(count))
    in_registers = not isinstance(lhs, ir.Value)
    lefts = [item for group in lhs for item in group] if in_registers else [lhs]
    signs = ", 1, 1" if letter == "f" else ""
    majors = "" if transposed is None else "".join(f", {int(side)}" for side in transposed[in_registers:])
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
    """Waits until at most `pending` groups of products are incomplete.

    Args:
        pending: maximum number of incomplete groups.
        values: f32 registers that neither the kernel nor the compiler may use before the wait.

    Returns:
        The registers.
    """
    count = len(values)
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return assembly(text, values, [*["=f"] * count, *map(str, range(count))], [value.type for value in values])


class Turns:
    """Lets warp groups take turns in order; each group waits at a barrier of its own."""

    def __init__(self, group: Int, groups: int) -> None:
        """Prepares the turns of one of `groups` groups; a single group takes no turns."""
        self._group, self._last = group, groups - 1

    def begin(self) -> None:
        """Gives the first turn to the first group; executed by the last group."""
        if self._last:
            with when(self._group.equals(self._last)):
                _pass_to(Int(0))

    def take(self) -> None:
        """Waits for the group's turn."""
        if self._last:
            _await(self._group)

    def pass_on(self) -> None:
        """Gives the turn to the next group."""
        if self._last:
            _pass_to(Int(0).where(self._group.equals(self._last), self._group + 1))

    def end(self) -> None:
        """Takes the final turn on behalf of the first group, so that no group's arrival remains without a wait."""
        if self._last:
            with when(self._group.equals(0)):
                _await(Int(0))


def _pass_to(group: Int) -> None:
    assembly(f"barrier.cta.arrive.aligned $0, {2 * GROUP};", [(group + _FIRST_TURN).ir], ["r"])


def _await(group: Int) -> None:
    assembly(f"barrier.cta.sync.aligned $0, {2 * GROUP};", [(group + _FIRST_TURN).ir], ["r"])
