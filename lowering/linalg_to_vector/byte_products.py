"""Products of bytes in register tiles: each 32-bit lane sums the products of its four bytes, or of two bfloat16.

    %s = linalg.generic {(m, p, l, k, b): %s[m, p, l] += ui8 %a[m, k, b] * i8 %w[p, k, 4 * l + b]}
    // -->
    %1 = vector.transfer_read %a[%m, %k, 0] : vector<4xi8>      // the same for all lanes
    %2 = vector.transfer_read %w[%p, %k, 0] : vector<64xi8>
    %s_k = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%s, %1 in all lanes, %2)

AArch64 has the same with i8mm (`usdot`), and products of signed bytes with dotprod (`sdot`). Without these, pairs of
16-bit integers are multiplied; in vectors of other widths, bytes one by one. Pairs of bfloat16 are multiplied by
AVX-512 BF16, elsewhere one by one in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, llvm, vector

from ..builders.generics import splat
from ..builders.linear_forms import LinearIndex
from .tile_reads import Chunk, Reader

GRAIN = 4
"""Number of bytes per lane."""

BRAIN_METHOD = "bf16"
"""Method of summing products of bfloat16 by one instruction."""

_DOT = {4: "llvm.x86.avx512.vpdpbusd.128", 8: "llvm.x86.avx512.vpdpbusd.256", 16: "llvm.x86.avx512.vpdpbusd.512"}
_PAIRS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
_SHORT_PAIRS = {
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.avx512.pmaddubs.w.512",
}
_BRAIN = {lanes: f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" for lanes in (4, 8, 16)}
_ARM = "llvm.aarch64.neon"
_INTRINSICS = {
    "dot": _DOT,
    "pairs": _PAIRS,
    "usdot": {4: f"{_ARM}.usdot.v4i32.v16i8"},
    "sdot": {4: f"{_ARM}.sdot.v4i32.v16i8"},
    "long_pairs": {4: f"{_ARM}.saddlp.v4i32.v8i16"},
}
"""Methods of summing products of bytes: instructions of x86-64 ("dot", "pairs") and of AArch64 (the others)."""


def byte_step(
    reader: Reader,
    rows: Sequence[tuple[int, ...]],
    chunks: Sequence[Chunk],
    where: Mapping[int, LinearIndex],
    sums: Sequence[ir.Value],
    method: str,
    lanes: int,
) -> list[ir.Value]:
    """Returns the sums after one more grain of every row and column.

    Args:
        reader: reads the operands.
        rows: rows of the tile.
        chunks: vectors of a row.
        where: indices of the reduced dimensions, except the grain's.
        sums: sums so far, row by row.
        method: a name of `_INTRINSICS`, by the machine's instructions, or "bytes" to multiply bytes one by one; for
            bfloat16 `BRAIN_METHOD`, or another to multiply them one by one.
        lanes: number of sums per vector register.
    """
    grain = reader.loops.sizes[-1]
    words = {chunk: reader.grains(1, rows[0], chunk, where, grain) for chunk in chunks}
    carried, results = iter(sums), []
    for row in rows:
        word = reader.grain(0, row, where, grain)
        for chunk in chunks:
            results.append(_in_registers(next(carried), word, words[chunk], method, lanes))
    return results


def _in_registers(total: ir.Value, word: ir.Value, words: ir.Value, method: str, lanes: int) -> ir.Value:
    """Adds the products of the unsigned bytes of `word`, the same for all lanes, and the signed ones of `words`."""
    return add_products(total, vector.broadcast(words.type, word), words, method, lanes)


def add_products(
    total: ir.Value, unsigned: ir.Value, signed: ir.Value, method: str, lanes: int, bits: int = 8
) -> ir.Value:
    """Returns `total` plus the products of bytes, computed register by register if a vector spans several.

    Args:
        total: sums, i32.
        unsigned: lanes of four unsigned bytes.
        signed: lanes of four signed bytes.
        method: see `byte_step`.
        lanes: number of sums per vector register.
        bits: number of bits of the unsigned bytes that may be set.
    """
    (width,) = ir.VectorType(total.type).shape
    if width <= lanes:
        return _added(total, unsigned, signed, method, bits)
    for start in range(0, width, lanes):
        parts = [slice_of(value, start, lanes) for value in (total, unsigned, signed)]
        total = vector.InsertStridedSliceOp(_added(*parts, method, bits), total, [start], [1]).result
    return total


def add_pairs(total: ir.Value, left: ir.Value, right: ir.Value, lanes: int) -> ir.Value:
    """Returns `total` plus the products of two 16-bit integers in each lane."""
    return _with_pairs(total, _bitcast(left, 16), _bitcast(right, 16), lanes)


def shorts_of(bits: int, method: str, lanes: int) -> int:
    """Returns how many vectors of products may be summed in 16 bits; 0 if the method does not sum in 16 bits.

    A pair of products of an unsigned number of `bits` bits and a signed byte is at most 2 * (2^bits - 1) * 127.
    """
    if method != "pairs" or lanes not in _SHORT_PAIRS:
        return 0
    return ((1 << 15) - 1) // (2 * ((1 << bits) - 1) * 127)


def add_shorts(total: ir.Value, unsigned: ir.Value, signed: ir.Value, lanes: int) -> ir.Value:
    """Returns 16-bit sums of pairs of products of bytes, in lanes of two; see `shorts_of` for how many fit."""
    (width,) = ir.VectorType(unsigned.type).shape
    kind = ir.VectorType.get([2 * width], ir.IntegerType.get_signless(16))
    parts = []
    for start in range(0, width, lanes):
        left, right = (_bitcast(slice_of(value, start, lanes), 8) for value in (unsigned, signed))
        part = ir.VectorType.get([2 * min(lanes, width)], kind.element_type)
        parts.append(_call(_SHORT_PAIRS[min(lanes, width)], part, [left, right]))
    return arith.addi(total, joined(parts))


def widen_shorts(total: ir.Value, shorts: ir.Value, lanes: int) -> ir.Value:
    """Returns 32-bit sums plus the two 16-bit sums of each lane."""
    return _with_pairs(total, shorts, splat(1, shorts.type), lanes)


def _with_pairs(total: ir.Value, left: ir.Value, right: ir.Value, lanes: int) -> ir.Value:
    """Adds the products of pairs of 16-bit integers, register by register, to 32-bit sums."""
    parts = []
    (width,) = ir.VectorType(left.type).shape
    for start in range(0, width, 2 * lanes):
        one, two = (slice_of(value, start, 2 * lanes) for value in (left, right))
        whole = ir.VectorType.get([ir.VectorType(one.type).shape[0] // 2], ir.IntegerType.get_signless(32))
        parts.append(_call(_PAIRS[whole.shape[0]], whole, [one, two]))
    return arith.addi(total, joined(parts))


def joined(parts: Sequence[ir.Value]) -> ir.Value:
    """Returns vectors of one length as one vector."""
    if len(parts) == 1:
        return parts[0]
    kind = ir.VectorType(parts[0].type)
    (size,) = kind.shape
    joint = ir.VectorType.get([size * len(parts)], kind.element_type)
    whole = splat(0, joint)
    for number, part in enumerate(parts):
        whole = vector.InsertStridedSliceOp(part, whole, [number * size], [1]).result
    return whole


def slice_of(value: ir.Value, start: int, count: int) -> ir.Value:
    """Returns `count` elements of a vector, or all if it has fewer."""
    kind = ir.VectorType(value.type)
    part = ir.VectorType.get([min(count, *kind.shape)], kind.element_type)
    return value if kind == part else vector.ExtractStridedSliceOp(part, value, [start], part.shape, [1]).result


def _added(total: ir.Value, left: ir.Value, right: ir.Value, method: str, bits: int) -> ir.Value:
    """Adds, lane by lane, the products of the unsigned bytes of `left` and the signed ones of `right` to `total`."""
    kind = ir.VectorType(total.type)
    (width,) = kind.shape
    if isinstance(kind.element_type, ir.FloatType):
        return _added_brains(total, left, right, _BRAIN.get(width) if method == BRAIN_METHOD else None)
    name = _INTRINSICS.get(method, {}).get(width)
    if name is None:
        return _one_by_one(total, left, right)
    if method in ("dot", "usdot") or (method == "sdot" and bits < 8):
        return _call(name, kind, [total, _bitcast(left, 8), _bitcast(right, 8)])
    if method == "sdot":
        return _added_signed(name, total, left, right)
    left, right = _bitcast(left, 16), _bitcast(right, 16)
    eight = splat(8, right.type)
    is_long = method == "long_pairs"
    even, signed = arith.andi(left, splat(255, left.type)), arith.shrsi(arith.shli(right, eight), eight)
    low = _pairs(name, kind, even, signed, is_long)
    high = _pairs(name, kind, arith.shrui(left, eight), arith.shrsi(right, eight), is_long)
    return arith.addi(arith.addi(total, low), high)


def _added_brains(total: ir.Value, left: ir.Value, right: ir.Value, name: str | None) -> ir.Value:
    """Adds, lane by lane, the products of two bfloat16 each to sums in float32, by an instruction if there is one."""
    if name is not None:
        kind = ir.VectorType.get([2 * ir.VectorType(total.type).shape[0]], ir.BF16Type.get())
        return _call(name, total.type, [total, *(vector.bitcast(kind, value) for value in (left, right))])
    # Each half of a word, as the upper half of a float32 whose lower half is 0.
    above, upper = splat(16, left.type), splat(-(1 << 16), left.type)
    for halves in (
        [arith.shli(value, above) for value in (left, right)],
        [arith.andi(v, upper) for v in (left, right)],
    ):
        one, two = (vector.bitcast(total.type, half) for half in halves)
        total = vector.fma(one, two, total)
    return total


def _pairs(name: str, kind: ir.Type, left: ir.Value, right: ir.Value, is_long: bool) -> ir.Value:
    """Returns the sums of two products each of 16-bit integers that hold bytes.

    If it `is_long`, the instruction only adds: a product of an unsigned and a signed byte fits in 16 bits.
    """
    return _call(name, kind, [arith.muli(left, right)] if is_long else [left, right])


def _added_signed(name: str, total: ir.Value, left: ir.Value, words: ir.Value) -> ir.Value:
    """Adds products by an instruction for signed bytes: a * w = (a - 128) * w + 2 * 64 * w.

    The second term is the same for all rows of a tile, so LLVM computes it once.
    """
    kind = ir.VectorType(total.type)
    signed, weights = _bitcast(arith.xori(left, splat(0x80808080 - (1 << 32), kind)), 8), _bitcast(words, 8)
    half = _call(name, kind, [splat(0, kind), weights, splat(64, weights.type)])
    total = arith.addi(total, arith.shli(half, splat(1, kind)))
    return _call(name, kind, [total, signed, weights])


def _one_by_one(total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    for place in range(GRAIN):
        above, below = splat(24 - 8 * place, total.type), splat(8 * place, total.type)
        unsigned = arith.andi(arith.shrui(left, below), splat(255, total.type))
        signed = arith.shrsi(arith.shli(right, above), splat(24, total.type))
        total = arith.addi(total, arith.muli(unsigned, signed))
    return total


def _call(name: str, kind: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    return llvm.call_intrinsic(kind, ir.StringAttr.get(name), list(operands), [], [])


def _bitcast(value: ir.Value, bits: int) -> ir.Value:
    (width,) = ir.VectorType(value.type).shape
    return vector.bitcast(ir.VectorType.get([width * 32 // bits], ir.IntegerType.get_signless(bits)), value)
