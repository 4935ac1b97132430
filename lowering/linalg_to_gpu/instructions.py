"""PTX instructions that the upstream dialects lack or bend, each as a function: inline assembly with its constraints.

Addresses in shared memory are i32 (what `cvta.to.shared` gives), those in global memory pointers of address space 1.
A constant `offset` becomes part of the address in the instruction, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from .integers import Int


def assembly(
    text: str, operands: Sequence[ir.Value], constraints: Sequence[str], results: Sequence[ir.Type] = ()
) -> list[ir.Value]:
    """Inline assembly that stays where it is among other memory accesses.

    Args:
        text: PTX; `$0` up are the results, then the operands, as LLVM counts them.
        operands: the values read.
        constraints: of the results (`=r`, `=f`), then of the operands (`r`, `l`, `f`, or the number of a tied result).
        results: the types of the results.
    """
    kind = None
    if results:
        kind = results[0] if len(results) == 1 else ir.Type.parse(f"!llvm.struct<({', '.join(map(str, results))})>")
    clobbered = ",".join([*constraints, "~{memory}"])
    value = llvm.inline_asm(kind, operands, text, clobbered, has_side_effects=True)
    if len(results) <= 1:
        return [value] if results else []
    return [llvm.extractvalue(result, value, ir.DenseI64ArrayAttr.get([place])) for place, result in enumerate(results)]


def copy_async(shared: Int, source: ir.Value, size: int, valid: Int | None = None, offset: int = 0) -> None:
    """Starts copying `size` bytes (4, 8 or 16) from global to shared memory; past `valid` bytes zeros are written."""
    cache = "cg" if size == 16 else "ca"
    text = f"cp.async.{cache}.shared.global [$0+{offset}], [$1], {size}"
    if valid is None:
        assembly(f"{text};", [shared.ir, source], ["r", "l"])
    else:
        assembly(f"{text}, $2;", [shared.ir, source, valid.ir], ["r", "l", "r"])


def commit_copies() -> None:
    """Closes a group of asynchronous copies."""
    assembly("cp.async.commit_group;", [], [])


def await_copies(pending: int) -> None:
    """Waits until at most `pending` groups of this thread's copies are under way."""
    assembly(f"cp.async.wait_group {pending};", [], [])


def load_matrices(address: Int, count: int, transposed: bool = False, offset: int = 0) -> list[ir.Value]:
    """`ldmatrix`: 1, 2 or 4 matrices of 8 rows of 16 bytes, a row's address given by each lane.

    Returns:
        An i32 per matrix: lane l holds the 4 bytes l % 4 of row l / 4 (transposed: of 2-byte elements).
    """
    i32 = ir.IntegerType.get_signless(32)
    places = ", ".join(f"${place}" for place in range(count))
    form = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 {{{places}}}, [${count}+{offset}];"
    return assembly(text, [address.ir], [*["=r"] * count, "r"], [i32] * count)


def multiply_matrices(
    form: str, lhs: Sequence[ir.Value], rhs: Sequence[ir.Value], sums: Sequence[ir.Value]
) -> list[ir.Value]:
    """`mma.sync.aligned.<form>`: the sums plus lhs times rhs, fragments as the PTX ISA lays them out over a warp.

    Args:
        form: such as `m16n8k16.row.col.f32.f16.f16.f32`.
        lhs: i32 registers of the left-hand side.
        rhs: i32 registers of the right-hand side.
        sums: four f32 or i32 registers.
    """
    letter = "f" if isinstance(sums[0].type, ir.F32Type) else "r"
    ends = [len(sums), len(sums) + len(lhs), len(sums) + len(lhs) + len(rhs)]
    groups = [range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]), range(ends[0])]
    places = ", ".join("{" + ", ".join(f"${place}" for place in group) + "}" for group in groups)
    constraints = (
        [f"={letter}"] * len(sums) + ["r"] * (len(lhs) + len(rhs)) + [str(place) for place in range(len(sums))]
    )
    return assembly(
        f"mma.sync.aligned.{form} {places};", [*lhs, *rhs, *sums], constraints, [value.type for value in sums]
    )


def round_to_tf32(value: ir.Value) -> ir.Value:
    """The nearest number of 10 bits of mantissa, ties away from zero, as the bits of an f32 in an i32."""
    (rounded,) = assembly("cvt.rna.tf32.f32 $0, $1;", [value], ["=r", "r"], [ir.IntegerType.get_signless(32)])
    return rounded


def hidden(number: Int) -> Int:
    """A number that the compiler does not know."""
    (value,) = assembly("mov.b32 $0, $1;", [number.ir], ["=r", "r"], [ir.IntegerType.get_signless(32)])
    return Int(value)


def not_before(number: Int, value: ir.Value) -> Int:
    """A number that the assembler cannot know before an f32 value, so that what it is used for comes after that."""
    text = "{ .reg .b32 z; mov.u32 z, %nctaid.z; sub.s32 z, z, 1; and.b32 z, z, $2; add.s32 $0, $1, z; }"
    i32 = ir.IntegerType.get_signless(32)
    (after,) = assembly(text, [number.ir, llvm.bitcast(i32, value)], ["=r", "r", "r"], [i32])
    return Int(after)


def sync_warp() -> None:
    """Waits for the other lanes of the warp, and makes what they have written seen."""
    assembly("bar.warp.sync 0xffffffff;", [], [])
