"""Products with matrices whose elements take few bits and have a scale per block of neighbours.

Element k of column n is `(numbers[n, k] - zeros[n, k / block]) * scales[n, k / block]`, with unsigned numbers of 2, 4
or 8 bits. They are stored along k, the lowest bits of a byte first.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from mlir import ir

from ...support.wording import quantity
from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ..dims import Dim, ceil_div
from ..specs import size_of
from ..types import TensorSpec, is_float
from .panels import column_groups, unpack
from .shapes import require_dtype, require_rank

WIDTHS = (2, 4, 8)
"""Numbers of bits."""

GRAIN = 4
"""Bytes of a column that are adjacent in a packed weight: the numbers that one 32-bit lane holds."""

LARGEST = 127
"""Magnitude to which the largest element of a block of rounded rows is scaled."""


_BRAIN = np.dtype(ml_dtypes.bfloat16)


def numbers_of(data: np.ndarray, bits: int) -> np.ndarray:
    """Returns the numbers in bytes along the last dimension: [.., bytes] --> [.., bytes * 8 / bits]."""
    parts = [(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*data.shape[:-1], -1)


def _require_width(bits: int) -> None:
    if bits not in WIDTHS:
        raise OpError(f"attribute 'bits' must be one of {', '.join(map(str, WIDTHS))}, but is {bits}")


class BlockMatmulOp(Op):
    """Product of rows with a matrix of few bits per element (com.microsoft MatMulNBits).

    Attributes:
        bits: the number of bits of an element of the weight: 2, 4 or 8.
        rounds_input: whether each block of a row of the input is rounded to multiples of its largest magnitude / 127.
            Products are then sums of integers.

    ```mlir
    %3 = "stepwell.block_matmul"(%0, %1, %2) {bits = 4 : i64}
        : (tensor<1x64xf32>, tensor<96x2x16xui8>, tensor<96x2xf32>) -> tensor<1x96xf32>
    ```
    """

    OPERATION_NAME = "stepwell.block_matmul"
    KERNEL = KernelTraits("contraction")
    ROUNDING = Rounding.SUM
    input = operand("[.., K]")
    weight = operand("[N, blocks, block * bits / 8]")
    scales = operand("[N, blocks]")
    zeros = optional_operand("[N, blocks], the numbers that stand for 0; 2^(bits - 1) if absent")
    bits = attribute(int)
    rounds_input = attribute(bool, default=False)
    result = result("[.., N]")

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        scales: TensorSpec,
        zeros: TensorSpec | None,
        *,
        bits: int,
        rounds_input: bool,
    ) -> TensorSpec:
        """The last dimension becomes N."""
        _require_width(bits)
        require_dtype(np.uint8, weight=weight)
        require_rank(3, weight=weight)
        if input.rank == 0 or not is_float(input.dtype):
            raise OpError(f"operand 'input' must hold floats and have a dimension to contract, but is {input}")
        columns, blocks, size = weight.shape
        if tuple(scales.shape) != (columns, blocks) or not is_float(scales.dtype):
            raise OpError(f"operand 'scales' must be floats [{columns}, {blocks}], but is {scales}")
        if zeros is not None and tuple(zeros.shape) != (columns, blocks):
            raise OpError(f"operand 'zeros' must be [{columns}, {blocks}], but is {zeros}")
        depth = input.shape[-1]
        if isinstance(depth, int) and isinstance(size, int) and ceil_div(depth * bits, 8 * size) != blocks:
            raise OpError(f"{quantity(blocks, 'block')} of {size * 8 // bits} elements do not hold {depth} elements")
        return TensorSpec((*input.shape[:-1], columns), input.dtype)

    @staticmethod
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        scales: np.ndarray,
        zeros: np.ndarray | None,
        *,
        bits: int,
        rounds_input: bool,
    ) -> np.ndarray:
        """Computes it with numpy, in float64."""
        numbers = numbers_of(weight, bits).astype(np.float64)
        start = np.float64(1 << (bits - 1)) if zeros is None else zeros.astype(np.float64)[..., None]
        matrix = (numbers - start) * scales.astype(np.float64)[..., None]
        blocks, block = matrix.shape[1:]
        missing = blocks * block - input.shape[-1]
        rows = np.pad(input.astype(np.float64), [(0, 0)] * (input.ndim - 1) + [(0, missing)])
        if rounds_input:
            rows = _rounded(rows.astype(np.float32).reshape(*rows.shape[:-1], blocks, block)).reshape(rows.shape)
        return (rows @ matrix.reshape(len(matrix), -1).T).astype(input.dtype)

    def flops(self) -> int:
        """One multiply-add for each element of the result and each term of its sum."""
        return 2 * size_of(self.result) * ir.RankedTensorType(self.input.type).shape[-1]


def _rounded(blocks: np.ndarray) -> np.ndarray:
    """The rows of blocks as they are after rounding."""
    most = np.abs(blocks).max(axis=-1, keepdims=True)
    factor = np.divide(np.float32(LARGEST), most, out=np.zeros_like(most), where=most > 0)
    return np.rint(blocks * factor) * (most.astype(np.float64) / LARGEST)


class PackedBlockMatmulOp(Op):
    """Product of rows with a packed matrix of few bits per element, summed block by block.

        result[.., n] = sum over b of
            scales[b, n] * (factors[.., b] * (sum over k in block b of input[.., k] * numbers[k, n])
                            - zeros[b, n] * sums[.., b])

    A byte of the weight holds numbers 4 elements apart, so that a 32-bit lane of a column gives 4 neighbours at a time:
    the 32 / bits elements from `k` on are in 4 bytes, in which element `k + 4 * h + c` is bits `h * bits` of byte `c`.

    With `spread`, a kernel stores the numbers of a panel as bytes before it multiplies rows of i8 with them.

    Rows of bf16 are multiplied by `(numbers - zeros) * scales` rounded to bf16, and need no sums.

    ```mlir
    %1 = "stepwell.packed_block_matmul"(%x, %sums, %w, %s)
      {columns = 96 : i64, panel = 32 : i64, bits = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}
      : (tensor<1x64xf32>, tensor<1x2xf32>, tensor<3072xui8>, tensor<192xf32>) -> tensor<1x96xf32>
    ```
    """

    OPERATION_NAME = "stepwell.packed_block_matmul"
    KERNEL = KernelTraits("contraction")
    ROUNDING = Rounding.SUM
    input = operand("[.., K], f32, i8 or bf16")
    sums = optional_operand("[.., blocks], f32: the sum of each block of the input, times its factor; none of bf16")
    weight = operand("[K * columns * bits / 8], packed")
    scales = operand("[blocks * columns], packed")
    zeros = optional_operand("[blocks * columns], packed; 2^(bits - 1) if absent")
    factors = optional_operand("[.., blocks], of each block of an input of i8")
    columns = attribute(int)
    panel = attribute(int)
    bits = attribute(int)
    spread = attribute(bool, default=False)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        sums: TensorSpec | None,
        weight: TensorSpec,
        scales: TensorSpec,
        zeros: TensorSpec | None,
        factors: TensorSpec | None,
        *,
        columns: int,
        panel: int,
        bits: int,
        spread: bool,
    ) -> TensorSpec:
        """f32 [.., columns]."""
        _require_width(bits)
        require_dtype(np.uint8, weight=weight)
        if spread and (factors is None or bits == 8):
            raise OpError("attribute 'spread' belongs to rows of i8 and numbers of less than 8 bits")
        depth = input.shape[-1]
        if (sums is None) != (input.dtype == _BRAIN):
            raise OpError(f"operand 'sums' belongs to rows of f32 or i8, and not of bf16, but the input is {input}")
        if sums is None:
            blocks = scales.shape[0] // columns if scales.rank == 1 and isinstance(scales.shape[0], int) else 0
        else:
            blocks = sums.shape[-1]
            if sums.shape[:-1] != input.shape[:-1] or (factors is not None and factors.shape != sums.shape):
                raise OpError(f"the operands of rows do not match: {input}, {sums}, {factors}")
        _check_count("weight", weight, ceil_div(depth * bits, 8) * columns)
        for name, spec in (("scales", scales), ("zeros", zeros)):
            if spec is not None:
                _check_count(name, spec, blocks * columns)
        return TensorSpec((*input.shape[:-1], columns), np.dtype(np.float32))

    @staticmethod
    def reference(
        input: np.ndarray,
        sums: np.ndarray | None,
        weight: np.ndarray,
        scales: np.ndarray,
        zeros: np.ndarray | None,
        factors: np.ndarray | None,
        *,
        columns: int,
        panel: int,
        bits: int,
        spread: bool,
    ) -> np.ndarray:
        """Unpacks the operands, and sums up in float64."""
        blocks = scales.size // columns
        data = unpack(weight, 1, columns, panel)[0].reshape(columns, -1, GRAIN)
        parts = [(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        numbers = np.stack(parts, axis=2).reshape(columns, blocks, -1).astype(np.float64)
        scale = unpack_blocks(scales, columns, panel).astype(np.float64)
        start = 1 << (bits - 1) if zeros is None else unpack_blocks(zeros, columns, panel).astype(np.float64)
        if sums is None:
            matrix = ((numbers - np.reshape(start, (*np.shape(start), 1))) * scale[..., None]).astype(np.float32)
            rounded = matrix.astype(_BRAIN).astype(np.float64).reshape(columns, -1)
            return (input.astype(np.float64) @ rounded.T).astype(np.float32)
        rows = input.astype(np.float64).reshape(*sums.shape, -1)
        factor = 1.0 if factors is None else factors.astype(np.float64)[..., None, :]
        products = np.einsum("...bk,nbk->...nb", rows, numbers) * factor
        return ((products - start * sums.astype(np.float64)[..., None, :]) * scale).sum(axis=-1).astype(np.float32)

    def flops(self) -> int:
        """One multiply-add for each element of the result and each term of its sum."""
        return 2 * size_of(self.result) * ir.RankedTensorType(self.input.type).shape[-1]


def unpack_blocks(packed: np.ndarray, columns: int, panel: int) -> np.ndarray:
    """Returns the numbers per block [columns, blocks] that `packed` holds panel by panel."""
    blocks, parts, offset = packed.size // columns, [], 0
    for group in column_groups(columns, panel):
        size = group.size * blocks
        tiles = packed[offset : offset + size].reshape(group.panels, blocks, group.width)
        parts.append(tiles.swapaxes(1, 2).reshape(group.size, blocks))
        offset += size
    return np.concatenate(parts)


def _check_count(name: str, spec: TensorSpec, elements: Dim) -> None:
    if spec.rank != 1 or spec.shape[0] != elements:
        raise OpError(f"operand '{name}' must be a flat tensor of {quantity(elements, 'element')}, but is {spec}")


def block_of(op: BlockMatmulOp) -> int:
    """Returns the number of elements per block."""
    return math.prod(ir.RankedTensorType(op.weight.type).shape[2:]) * 8 // op.bits
