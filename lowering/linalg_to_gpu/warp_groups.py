"""What four warps of a Hopper GPU do together: products of matrices in shared memory (wgmma), and sharing registers."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from .instructions import assembly
from .integers import Int, constant

GROUP, LINE = 128, 128
"""Threads of a warp group; bytes of a swizzled line."""
STEP_BYTES = 32
"""Bytes of depth that one product takes of a line along depth."""
_SWIZZLE_128 = 1 << 62
_GROUP_OF_LINES = 8 * LINE


def matrix_descriptor(address: Int, panel_bytes: int) -> ir.Value:
    """What a product is told of a matrix in shared memory: lines of 128 bytes, swizzled, in groups of eight.

    Args:
        address: of its first element; groups of eight lines begin at multiples of 1024.
        panel_bytes: for lines along rows, how far the next 128 bytes of rows lie; else of no meaning.
    """
    fixed = _SWIZZLE_128 | (_GROUP_OF_LINES >> 4) << 32 | (panel_bytes >> 4) << 16
    start = ((address & 0x3FFFF) >> 4).wide()
    return arith.ori(start, constant(fixed, 64))


def take_registers(count: int) -> None:
    """Lets every thread of the warp group have `count` registers, once others have given them up."""
    assembly(f"setmaxnreg.inc.sync.aligned.u32 {count};", [], [])


def give_registers(count: int) -> None:
    """Leaves every thread of the warp group `count` registers."""
    assembly(f"setmaxnreg.dec.sync.aligned.u32 {count};", [], [])


def multiply_group(
    form: str,
    lhs: ir.Value,
    rhs: ir.Value,
    steps: Sequence[tuple[int, int]],
    sums: Sequence[ir.Value],
    turned: tuple[bool, bool] | None,
) -> list[ir.Value]:
    """Starts products of two matrices in shared memory and closes their group.

    Args:
        form: the instruction's shape and types, such as `m64n256k16.f32.bf16.bf16`.
        lhs: descriptor of the left-hand side.
        rhs: descriptor of the right-hand side.
        steps: for each product, by how many bytes it reads after the start of both.
        sums: the registers that are added to, as the PTX ISA lays them out over the warp group.
        turned: whether the lines of each run along rows; None for types that know no such thing.

    Returns:
        The new sums; not to be touched before `await_products`.
    """
    count = len(sums)
    letter = "f" if isinstance(sums[0].type, ir.F32Type) else "r"
    registers = ", ".join(f"${place}" for place in range(count))
    signs = ", 1, 1" if letter == "f" else ""
    majors = "" if turned is None else "".join(f", {int(side)}" for side in turned)
    lines = ["{", ".reg .pred p;", ".reg .b64 a, b;", "setp.eq.u32 p, 0, 0;", "wgmma.fence.sync.aligned;"]
    for left, right in steps:
        lines += [f"add.s64 a, ${count}, {left >> 4};", f"add.s64 b, ${count + 1}, {right >> 4};"]
        lines.append(f"wgmma.mma_async.sync.aligned.{form} {{{registers}}}, a, b, p{signs}{majors};")
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    constraints = [*[f"={letter}"] * count, "l", "l", *map(str, range(count))]
    return assembly("\n".join(lines), [lhs, rhs, *sums], constraints, [value.type for value in sums])


def await_products(pending: int) -> None:
    """Waits until at most `pending` groups of products are under way."""
    assembly(f"wgmma.wait_group.sync.aligned {pending};", [], [])
