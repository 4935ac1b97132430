"""PTX instructions that the upstream dialects lack or restrict, each as a function that emits inline assembly.

Addresses in shared memory are i32 (as `cvta.to.shared` returns them); those in global memory are pointers of address
space 1. A constant `offset` is encoded in the instruction's address and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from .integers import Int


def assembly(
    text: str, operands: Sequence[ir.Value], constraints: Sequence[str], results: Sequence[ir.Type] = ()
) -> list[ir.Value]:
    """Emits inline assembly that is not reordered with other memory accesses.

    Args:
        text: PTX; `$0`, `$1`, ... are the results, then the operands, in LLVM's numbering.
        operands: values read.
        constraints: those of the results (`=r`, `=f`), then of the operands (`r`, `l`, `f`, or the number of a tied
            result).
        results: types of the results.
    """
    kind = None
    if results:
        kind = results[0] if len(results) == 1 else ir.Type.parse(f"!llvm.struct<({', '.join(map(str, results))})>")
    clobbered = ",".join([*constraints, "~{memory}"])
    value = llvm.inline_asm(kind, operands, text, clobbered, has_side_effects=True)
    if len(results) <= 1:
        return [value] if results else []
    return [llvm.extractvalue(result, value, ir.DenseI64ArrayAttr.get([place])) for place, result in enumerate(results)]


def copy_async(shared: Int, source: ir.Value, size: int, valid: Int | None = None) -> None:
    """Starts copying `size` bytes (4, 8 or 16) from global to shared memory; bytes past `valid` become zeros."""
    cache = "cg" if size == 16 else "ca"
    text = f"cp.async.{cache}.shared.global [$0], [$1], {size}"
    if valid is None:
        assembly(f"{text};", [shared.ir, source], ["r", "l"])
    else:
        assembly(f"{text}, $2;", [shared.ir, source, valid.ir], ["r", "l", "r"])


def commit_copies() -> None:
    """Closes a group of asynchronous copies."""
    assembly("cp.async.commit_group;", [], [])


def await_copies(pending: int) -> None:
    """Waits until at most `pending` groups of this thread's copies are incomplete."""
    assembly(f"cp.async.wait_group {pending};", [], [])


def load_matrices(address: Int, count: int, transposed: bool = False, offset: int = 0) -> list[ir.Value]:
    """Emits `ldmatrix`: loads 1, 2 or 4 matrices of 8 rows of 16 bytes; each lane gives the address of one row.

    Returns:
        One i32 per matrix: lane l holds bytes 4 * (l % 4) to 4 * (l % 4) + 3 of row l / 4; if `transposed`, of the
        matrix of 2-byte elements after transposition.
    """
    i32 = ir.IntegerType.get_signless(32)
    places = ", ".join(f"${place}" for place in range(count))
    form = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 {{{places}}}, [${count}+{offset}];"
    return assembly(text, [address.ir], [*["=r"] * count, "r"], [i32] * count)


def multiply_matrices(
    form: str, lhs: Sequence[ir.Value], rhs: Sequence[ir.Value], sums: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emits `mma.sync.aligned.<form>`: sums + lhs * rhs, with the fragment layout of the PTX ISA.

    Args:
        form: shape, layout and types, such as `m16n8k16.row.col.f32.f16.f16.f32`.
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
    """Rounds to a mantissa of 10 bits, ties away from zero; returns the bits of the f32 as an i32."""
    (rounded,) = assembly("cvt.rna.tf32.f32 $0, $1;", [value], ["=r", "r"], [ir.IntegerType.get_signless(32)])
    return rounded


def hidden(number: Int) -> Int:
    """Returns the number through an opaque instruction, so that the compiler does not know its value."""
    (value,) = assembly("mov.b32 $0, $1;", [number.ir], ["=r", "r"], [ir.IntegerType.get_signless(32)])
    return Int(value)


def not_before(number: Int, value: ir.Value) -> Int:
    """Returns the number with a fake dependence on an f32 value, so that its uses are scheduled after that value."""
    text = "{ .reg .b32 z; mov.u32 z, %nctaid.z; sub.s32 z, z, 1; and.b32 z, z, $2; add.s32 $0, $1, z; }"
    i32 = ir.IntegerType.get_signless(32)
    (after,) = assembly(text, [number.ir, llvm.bitcast(i32, value)], ["=r", "r", "r"], [i32])
    return Int(after)


def sync_warp() -> None:
    """Waits for the other lanes of the warp, and makes their writes visible."""
    assembly("bar.warp.sync 0xffffffff;", [], [])
