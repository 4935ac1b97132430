"""Conversion of a panel of numbers of few bits to bf16, before the rows of a product are multiplied with it.

%1 = linalg.generic {(p, r, l): bf16 (number(r / 2 % 2, %w[p, r / 4, 4 * (l / 2) + 2 * (r % 2) + l % 2]) - 8)
                                     * %f[p, r / 16, l / 2]}
// -->
scf.for %b .. {
  %scale = vector.transfer_read %f[0, %b, 0] : vector<16xf32>
  scf.for %w .. {
    %words = vector.transfer_read %w[0, 4 * %b + %w, 0] : vector<16xi32>
    for each pair in a word:
      %even, %odd = fma (float ((%words >> shift) & 15)) %scale (-8 * %scale)
      vector.transfer_write (vector.interleave (bf16 %even), (bf16 %odd))
  }
}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, scf, vector

from ...dialects import discardable
from ...dialects.stepwell.blocks import GRAIN
from ...passes.ir.values import constant_index, shape_of
from ..builders.generics import constant, splat, zero_of

_PAIR = 2
"""Neighbours along the reduction that a lane holds."""


def converts_blocks(op: ir.Operation) -> bool:
    """Returns whether an op converts panels of numbers of few bits."""
    return discardable.PACKING.is_on(op) and discardable.BLOCK_BITS.is_on(op)


def convert_blocks(op: linalg.GenericOp, lanes: int) -> None:
    """Replaces the op by loops over vectors.

    Args:
        op: the op.
        lanes: number of 32-bit lanes per vector register.
    """
    target = op.operands[len(op.operands) - 1]
    with op.operation.location, ir.InsertionPoint(op):
        if isinstance(ir.RankedTensorType(target.type).element_type, ir.IntegerType):
            result = _spread(op, lanes, target)
        else:
            result = _Conversion.of(op, lanes).emit(target)
    op.results[0].replace_all_uses_with(result)
    op.operation.erase()


@dataclass(frozen=True)
class _Conversion:
    """The conversion of some panels.

    Attributes:
        bits: bits of a number.
        weight: ui8 [panels, words, 4 * columns].
        scales: [panels, blocks, columns].
        zeros: the numbers that stand for 0, in the same order; None if it is 2^(bits - 1).
        lanes: number of 32-bit lanes per vector.
    """

    bits: int
    weight: ir.Value
    scales: ir.Value
    zeros: ir.Value | None
    lanes: int

    @staticmethod
    def of(op: linalg.GenericOp, lanes: int) -> _Conversion:
        weight, scales, *rest = list(op.operands)[:-1]
        width = shape_of(scales)[-1]
        return _Conversion(
            discardable.BLOCK_BITS.required(op.operation),
            weight,
            scales,
            rest[0] if rest else None,
            min(lanes, 1 << (width - 1).bit_length()),
        )

    def emit(self, target: ir.Value) -> ir.Value:
        """Emits the loops; returns the tensor with the converted panels."""
        panels, blocks, _ = shape_of(self.scales)
        words = shape_of(self.weight)[1] // blocks

        def block(indices: Sequence[ir.Value], target: ir.Value) -> ir.Value:
            panel, number = indices
            factors = [self._factors(panel, number, start) for start in self._starts]
            first = arith.muli(number, constant_index(words))

            def word(inner: Sequence[ir.Value], target: ir.Value) -> ir.Value:
                at = arith.addi(first, inner[0])
                for start, (scale, offset) in zip(self._starts, factors, strict=True):
                    target = self._word(panel, at, start, scale, offset, target)
                return target

            return _loops([words], word, target)

        return _loops([panels, blocks], block, target)

    @property
    def _starts(self) -> range:
        return range(0, shape_of(self.scales)[-1], self.lanes)

    def _factors(self, panel: ir.Value, block: ir.Value, start: int) -> tuple[ir.Value, ir.Value]:
        """Returns the scales of some columns, and what their numbers have to be moved by."""
        scale = self._floats(self.scales, panel, block, start)
        zero = splat(1 << (self.bits - 1), scale.type)
        if self.zeros is not None:
            zero = self._floats(self.zeros, panel, block, start)
        return scale, arith.negf(arith.mulf(zero, scale))

    def _floats(self, source: ir.Value, panel: ir.Value, block: ir.Value, start: int) -> ir.Value:
        """Reads one number per column as a float; bytes are unsigned."""
        value = _read(source, [panel, block, constant_index(start)], self.lanes)
        kind, element = ir.VectorType.get([self.lanes], ir.F32Type.get()), ir.VectorType(value.type).element_type
        if isinstance(element, ir.IntegerType):
            return arith.uitofp(kind, value)
        return value if value.type == kind else arith.extf(kind, value)

    def _word(
        self, panel: ir.Value, at: ir.Value, start: int, scale: ir.Value, offset: ir.Value, target: ir.Value
    ) -> ir.Value:
        """Converts a word of some columns."""
        read = _read(self.weight, [panel, at, constant_index(GRAIN * start)], GRAIN * self.lanes)
        words = vector.bitcast(ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(32)), read)
        pairs = GRAIN // _PAIR * 8 // self.bits
        first = arith.muli(at, constant_index(pairs))
        for pair in range(pairs):
            part, byte = divmod(pair, GRAIN // _PAIR)
            shift = 8 * _PAIR * byte + self.bits * part
            even, odd = (self._scaled(words, shift + 8 * item, scale, offset) for item in range(_PAIR))
            place = [panel, arith.addi(first, constant_index(pair)), constant_index(_PAIR * start)]
            target = _write(vector.interleave(even, odd), target, place)
        return target

    def _scaled(self, words: ir.Value, shift: int, scale: ir.Value, offset: ir.Value) -> ir.Value:
        """Returns the numbers at some bit of the words, scaled and rounded to bf16."""
        shifted = arith.shrui(words, splat(shift, words.type)) if shift else words
        numbers = arith.andi(shifted, splat((1 << self.bits) - 1, words.type))
        value = vector.fma(arith.sitofp(scale.type, numbers), scale, offset)
        return arith.truncf(ir.VectorType.get([self.lanes], ir.BF16Type.get()), value)


def _spread(op: linalg.GenericOp, lanes: int, target: ir.Value) -> ir.Value:
    """Stores each number of panels [panels, blocks, words, 4 * columns] in a byte.

    Args:
        op: the op.
        lanes: number of 32-bit lanes per vector register.
        target: the panels of bytes, with several words for each.
    """
    bits = discardable.BLOCK_BITS.required(op.operation)
    source, parts = op.operands[0], 8 // bits
    *outer, width = shape_of(source)
    lanes = min(lanes, 1 << (width // GRAIN - 1).bit_length())
    spread = sum(((1 << bits) - 1) << (8 * byte) for byte in range(GRAIN))

    def word(indices: Sequence[ir.Value], target: ir.Value) -> ir.Value:
        *before, number = indices
        first = arith.muli(number, constant_index(parts))
        for start in range(0, width, GRAIN * lanes):
            read = _read(source, [*indices, constant_index(start)], GRAIN * lanes)
            words = vector.bitcast(ir.VectorType.get([lanes], ir.IntegerType.get_signless(32)), read)
            for part in range(parts):
                shifted = arith.shrui(words, splat(bits * part, words.type)) if part else words
                numbers = vector.bitcast(read.type, arith.andi(shifted, splat(spread, words.type)))
                place = [*before, arith.addi(first, constant_index(part)), constant_index(start)]
                target = _write(numbers, target, place)
        return target

    return _loops(outer, word, target)


_Body = Callable[[Sequence[ir.Value], ir.Value], ir.Value]
"""Emits the body of loops: from their indices and a tensor to that tensor after the iteration."""


def _loops(sizes: Sequence[int], body: _Body, target: ir.Value, indices: Sequence[ir.Value] = ()) -> ir.Value:
    if not sizes:
        return body(indices, target)
    if sizes[0] == 1:
        return _loops(sizes[1:], body, target, [*indices, constant_index(0)])
    loop = scf.ForOp(constant_index(0), constant_index(sizes[0]), constant_index(1), [target])
    with ir.InsertionPoint(loop.body):
        inside = [*indices, loop.induction_variable]
        scf.YieldOp([_loops(sizes[1:], body, loop.inner_iter_args[0], inside)])
    return loop.results[0]


def _along_last(rank: int) -> ir.AffineMapAttr:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)]))


def _read(source: ir.Value, place: Sequence[ir.Value], count: int) -> ir.Value:
    """Reads neighbours; 0 beyond the end."""
    kind = ir.RankedTensorType(source.type)
    is_inside = kind.shape[-1] % count == 0
    result = ir.VectorType.get([count], kind.element_type)
    padding = constant(zero_of(kind.element_type))
    return vector.TransferReadOp(result, source, place, _along_last(kind.rank), padding, [is_inside]).result


def _write(value: ir.Value, target: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
    """Writes neighbours, as far as the tensor reaches."""
    kind = ir.RankedTensorType(target.type)
    is_inside = kind.shape[-1] % ir.VectorType(value.type).shape[0] == 0
    return vector.TransferWriteOp(kind, value, target, place, _along_last(kind.rank), [is_inside]).results[0]
