"""Products of bytes in register tiles: each 32-bit lane sums up the products of its four bytes.

    %s = linalg.generic {(m, p, l, k, b): %s[m, p, l] += ui8 %a[m, k, b] * i8 %w[p, k, 4 * l + b]}
    // -->
    %1 = vector.transfer_read %a[%m, %k, 0] : vector<4xi8>      // the same for all lanes
    %2 = vector.transfer_read %w[%p, %k, 0] : vector<64xi8>
    %s_k = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%s, %1 in all lanes, %2)

AArch64 has the same with i8mm (`usdot`), and products of signed bytes with dotprod (`sdot`). Without these, pairs of
16-bit integers are multiplied; in vectors of other widths, bytes one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, llvm, vector

from ..builders.linear_forms import Place
from .tile_reads import Chunk, Reader

GRAIN = 4
"""Number of bytes per lane."""

_DOT = {4: "llvm.x86.avx512.vpdpbusd.128", 8: "llvm.x86.avx512.vpdpbusd.256", 16: "llvm.x86.avx512.vpdpbusd.512"}
_PAIRS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
_ARM = "llvm.aarch64.neon"
_INTRINSICS = {
    "dot": _DOT,
    "pairs": _PAIRS,
    "usdot": {4: f"{_ARM}.usdot.v4i32.v16i8"},
    "sdot": {4: f"{_ARM}.sdot.v4i32.v16i8"},
    "long_pairs": {4: f"{_ARM}.saddlp.v4i32.v8i16"},
}
METHODS = tuple(_INTRINSICS)
"""Methods of adding up products of bytes: instructions of x86-64 ("dot", "pairs") and of AArch64 (the others)."""


def byte_step(
    reader: Reader,
    rows: Sequence[tuple[int, ...]],
    chunks: Sequence[Chunk],
    where: Mapping[int, Place],
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
        method: one of `METHODS`, by the machine's instructions, or "bytes" to multiply bytes one by one.
        lanes: number of sums per vector register.
    """
    words = {chunk: reader.grains(1, rows[0], chunk, where, GRAIN) for chunk in chunks}
    carried, results = iter(sums), []
    for row in rows:
        word = reader.grain(0, row, where, GRAIN)
        for chunk in chunks:
            results.append(_in_registers(next(carried), word, words[chunk], method, lanes))
    return results


def _in_registers(total: ir.Value, word: ir.Value, words: ir.Value, method: str, lanes: int) -> ir.Value:
    """Returns `total` plus the products, computed register by register if a vector spans several."""
    (width,) = ir.VectorType(total.type).shape
    if width <= lanes:
        return _added(total, word, words, method)
    for start in range(0, width, lanes):
        part, weights = (_slice(value, start, lanes) for value in (total, words))
        total = vector.InsertStridedSliceOp(_added(part, word, weights, method), total, [start], [1]).result
    return total


def _slice(value: ir.Value, start: int, count: int) -> ir.Value:
    kind = ir.VectorType(value.type)
    part = ir.VectorType.get([count], kind.element_type)
    return value if kind == part else vector.ExtractStridedSliceOp(part, value, [start], [count], [1]).result


def _added(total: ir.Value, word: ir.Value, words: ir.Value, method: str) -> ir.Value:
    """Adds, lane by lane, the products of the unsigned bytes of `word` and the signed ones of `words` to `total`."""
    kind = ir.VectorType(total.type)
    (width,) = kind.shape
    left = vector.broadcast(kind, word)
    name = _INTRINSICS.get(method, {}).get(width)
    if name is None:
        return _one_by_one(total, left, words)
    if method in ("dot", "usdot"):
        return _call(name, kind, [total, _bitcast(left, 8), _bitcast(words, 8)])
    if method == "sdot":
        return _added_signed(name, total, left, words)
    left, right = _bitcast(left, 16), _bitcast(words, 16)
    eight = _splat(right.type, 8)
    is_long = method == "long_pairs"
    even, signed = arith.andi(left, _splat(left.type, 255)), arith.shrsi(arith.shli(right, eight), eight)
    low = _pairs(name, kind, even, signed, is_long)
    high = _pairs(name, kind, arith.shrui(left, eight), arith.shrsi(right, eight), is_long)
    return arith.addi(arith.addi(total, low), high)


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
    signed, weights = _bitcast(arith.xori(left, _splat(kind, 0x80808080 - (1 << 32))), 8), _bitcast(words, 8)
    half = _call(name, kind, [_splat(kind, 0), weights, _splat(weights.type, 64)])
    total = arith.addi(total, arith.shli(half, _splat(kind, 1)))
    return _call(name, kind, [total, signed, weights])


def _one_by_one(total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    for place in range(GRAIN):
        above, below = _splat(total.type, 24 - 8 * place), _splat(total.type, 8 * place)
        unsigned = arith.andi(arith.shrui(left, below), _splat(total.type, 255))
        signed = arith.shrsi(arith.shli(right, above), _splat(total.type, 24))
        total = arith.addi(total, arith.muli(unsigned, signed))
    return total


def _call(name: str, kind: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    return llvm.call_intrinsic(kind, ir.StringAttr.get(name), list(operands), [], [])


def _bitcast(value: ir.Value, bits: int) -> ir.Value:
    (width,) = ir.VectorType(value.type).shape
    return vector.bitcast(ir.VectorType.get([width * 32 // bits], ir.IntegerType.get_signless(bits)), value)


def _splat(kind: ir.Type, number: int) -> ir.Value:
    element = ir.VectorType(kind).element_type
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(element, number)))
