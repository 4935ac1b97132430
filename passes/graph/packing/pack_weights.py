"""The pass `stepwell-pack-weights`: packs weights in the layout of the micro-kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ....dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from ....dialects.stepwell.panels import SHORT_FLOATS, grain_of
from ....machines.machine import Machine
from ....machines.panels import LEAST_SHARED_ROWS, choose_panel
from ...infra.base import Pass, register
from ...infra.machine_option import machine_of
from ...infra.state import CompileState
from ...ir.functions import main_function
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ...kernel.demand import Demand
from ..products.byte_products import WidenBytes, in_whole_grains, must_widen, sum_bytes
from ..values import dtype_of, is_fixed, static_shape
from .copy_columns import CopyColumns
from .pack_blocks import PackBlockMatmul, UnpackBlocks
from .pack_rhs import PackRhs, TransposeRhs, shared_operands
from .pack_stacked import PackStackedMatmul
from .panels import pack, pack_windows
from .short_weights import short_floats_of
from .transposed_weights import TransposeMatmulWeight, TransposePointwiseWeight, is_transposed

# Maximum number of rows of float32 for which a weight of short floats is not widened at compile time. On a Xeon with
# AMX, a weight of 1,024 x 2,048 takes 0.5 to 0.7 of float32's time for up to 8 rows, 1.04 to 1.12 for 16.
_FEW_ROWS = 8

# Minimum number of rows of short floats that are converted before their product: a choice.
_WIDE_ROWS = 4


@register
@dataclass(frozen=True)
class PackWeightsPass(Pass):
    """Lay out the weights of contractions and convolutions in the order in which the micro-kernel reads them.

    The packing consists of ordinary ops on the parameter; `stepwell-hoist-parameters` moves them to @init. A weight
    computed in every run is packed in every run if it is a convolution's weight or a transposed matmul operand. The
    same holds for a matmul operand whose rows are so far apart that they take many pages or evict each other from the
    cache. Any other right-hand side is read in place. With `in_kernels`, kernels of products pack transposed operands
    themselves, one panel at a time, and a large left-hand side that is stored by columns is copied first.

    ```mlir
    %0 = "stepwell.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
    // -->
    %1 = "stepwell.reshape"(%w) {shape = array<i64: 4, 2, 32>}
    %2 = "stepwell.transpose"(%1) {permutation = array<i64: 1, 0, 2>}
    %3 = "stepwell.reshape"(%2) {shape = array<i64: 256>}
    %0 = "stepwell.packed_matmul"(%x, %3) {columns = 64, panel = 32}
    ```

    Convolutions keep their padding. Weights of few bits in blocks keep their bits, except for `bytes_by_depth`. With
    `widen_rows`, rows of f16 or bf16 become float32 unless instructions multiply pairs of them. A stack of weights, of
    which a loop takes one by `stepwell.row`, is packed as a whole.

    Preconditions: images have their channels last.

    Attributes:
        machine: description of another machine than the target's.
        by_depth: whether float32 weights of products are stored along the contracted dimension and rounded to tf32.
        bytes_by_depth: whether weights of bytes are stored along the contracted dimension: panels of one column.
        widen_rows: whether rows of short floats are converted to float32 before their product.
        in_kernels: whether kernels can pack a panel before they multiply rows with it.
    """

    name = "stepwell-pack-weights"
    machine: str = ""
    by_depth: bool = False
    bytes_by_depth: bool = False
    widen_rows: bool = False
    in_kernels: bool = False

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to the whole module."""
        machine = machine_of(self.machine, state)
        lines = self.bytes_by_depth
        varies = discardable.RANGES.is_on(op)
        few_bits = PackBlockMatmul(machine, state.batch_invariant, _typical_rows(op) if varies else None)
        blocks = (UnpackBlocks(),) if lines else (few_bits, UnpackBlocks())
        stacks = () if lines else (PackStackedMatmul(machine, varies),)
        convolutions = (PackDepthwiseConv(), PackGroupedConv(machine), PackConv(machine, lines, self.widen_rows))
        transposing = (TransposeMatmulWeight(), TransposePointwiseWeight()) if self.by_depth else ()
        products = (*transposing, PackMatmul(machine, self.by_depth, lines, self.widen_rows, varies))
        copying = (CopyColumns(),) if self.in_kernels and not varies else ()
        packing = PackRhs(machine, self.in_kernels and not varies, shared_operands(op))
        others = (*copying, WidenBytes(), packing, TransposeRhs())
        apply_patterns(op, (*blocks, *products, *stacks, *convolutions, *others), state)


def _typical_rows(module: ir.Operation) -> Callable[[ir.Value], list[int]]:
    """Returns a function that returns the numbers of rows of a value at the representative sizes of a module."""

    @functools.cache
    def demand() -> Demand:
        return Demand(module, main_function(module))

    def rows(value: ir.Value) -> list[int]:
        whole = [-1] * ir.RankedTensorType(value.type).rank
        return [math.prod(extents[:-1]) for extents in demand().typical(value, whole)]

    return rows


@dataclass(frozen=True)
class PackMatmul(Pattern[MatmulOp]):
    """matmul(x, w) --> packed_matmul(x, packed w), except for weights that are to stay transposed"""

    machine: Machine
    leaves_transposed: bool = False
    bytes_by_depth: bool = False
    widens_rows: bool = False
    varies: bool = False
    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        if not is_fixed(op.rhs) or (self.leaves_transposed and is_transposed(op)):
            return None
        shape, rows = static_shape(op.rhs), static_shape(op.lhs)
        if shape is None or rows is None or len(shape) != 2:
            return Refusal("the weight is not a matrix of static shape")
        count = math.prod(rows[:-1])
        short = short_floats_of(op.rhs, self.machine) if self._keeps_short(count) else None
        if op.transpose_lhs:
            return Refusal("the left operand is transposed")
        if must_widen(op):
            return Refusal(_OTHER_BYTES)
        stored = op.rhs if short is None else short
        weight = stored if op.transpose_rhs else TransposeOp(stored, permutation=(1, 0)).result
        columns = shape[0] if op.transpose_rhs else shape[1]
        lanes = self.machine.lanes(sum_bytes(op))
        in_tiles = _in_tiles(self.machine, op.rhs)
        # Programs for other ranges share the packed weight, so its panels do not depend on the number of rows.
        shared = max(count, LEAST_SHARED_ROWS) if self.varies else count
        panel = choose_panel(self.machine, columns, lanes, shared, in_tiles=in_tiles)
        panel = 1 if self.bytes_by_depth and grain_of(dtype_of(op.rhs)) > 1 else panel
        grain = 0 if self.bytes_by_depth else _grain(self.machine, op.rhs)
        lhs = _widened(op.lhs, count, grain) if self.widens_rows else op.lhs
        lhs, weight = in_whole_grains(lhs, grain=grain), in_whole_grains(weight, grain=grain)
        packed = pack(weight, 1, columns, ir.RankedTensorType(weight.type).shape[1], panel, grain)
        given = {**_given(grain), **({} if short is None else {"keeps_sums": True})}
        return PackedMatmulOp(lhs, packed, columns=columns, panel=panel, **given).result

    def _keeps_short(self, rows: int) -> bool:
        """Returns whether a weight of short floats is converted in the product, and not at compile time.

        With few rows, a product waits for the weight's bytes. With more rows the conversion takes longer than it saves,
        but programs for ranges of sizes have both few and many rows, and share their weights.
        """
        return not self.leaves_transposed and (self.varies or rows <= _FEW_ROWS)


def _widened(value: ir.Value, rows: int, grain: int) -> ir.Value:
    """Converts short floats of many rows to float32, unless instructions multiply pairs of them.

    Each element is broadcast to the lanes, and would be converted by every panel of the weight.
    """
    if dtype_of(value) not in SHORT_FLOATS or grain or rows < _WIDE_ROWS:
        return value
    return CastOp(value, dtype=np.dtype(np.float32)).result


def _given(grain: int) -> dict[str, Any]:
    """Returns the attribute for a grain that is not that of the type."""
    return {"grain": grain} if grain else {}


def _in_tiles(machine: Machine, weight: ir.Value) -> bool:
    """Returns whether a matrix unit multiplies weights of this type."""
    return grain_of(dtype_of(weight)) > 1 or _grain(machine, weight) > 1


def _grain(machine: Machine, weight: ir.Value) -> int:
    """Returns the neighbours along the reduction that are adjacent in a packed weight; 0 for those of its type.

    Instructions for bfloat16 multiply pairs.
    """
    return 2 if machine.brain_rate and dtype_of(weight) == np.dtype(ml_dtypes.bfloat16) else 0


@dataclass(frozen=True)
class PackConv(Pattern[ConvOp]):
    """conv(x, w, b) --> add(packed_conv(x, packed w), b); a convolution of one pixel becomes a packed_matmul"""

    machine: Machine
    bytes_by_depth: bool = False
    widens_rows: bool = False
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        refusal = _refusal(op)
        if refusal is not None or _is_depthwise(op) or _is_narrow(op, self.machine):
            return refusal
        outputs, _, *kernel = ir.RankedTensorType(op.weight.type).shape
        columns, spatial = outputs // op.group, len(kernel)
        to_channels_last = (0, *range(2, spatial + 2), 1)
        grain = 0 if self.bytes_by_depth else _grain(self.machine, op.weight)
        in_every_run = not is_fixed(op.weight) and grain_of(dtype_of(op.weight)) == 1 and not grain
        weight = TransposeOp(op.weight, permutation=to_channels_last).result
        positions = math.prod(ir.RankedTensorType(op.result.type).shape[:-1])
        input = _widened(op.input, positions, grain) if self.widens_rows else op.input
        input = in_whole_grains(input, op.group, grain)
        weight = in_whole_grains(weight, grain=grain)
        lanes = self.machine.lanes(sum_bytes(op))
        in_tiles = _in_tiles(self.machine, op.weight)
        panel = choose_panel(self.machine, columns, lanes, positions, even=in_every_run, in_tiles=in_tiles)
        panel = 1 if self.bytes_by_depth and grain_of(dtype_of(op.weight)) > 1 else panel
        if in_every_run and columns % panel == 0:
            packed = pack_windows(op.weight, op.group, panel)
        else:
            depth = math.prod(ir.RankedTensorType(weight.type).shape[1:])
            packed = pack(weight, op.group, columns, depth, panel, grain)
        if math.prod(kernel) == op.group == 1 and set(op.strides) == {1} and not any(op.pads):
            result = PackedMatmulOp(input, packed, columns=outputs, panel=panel, **_given(grain)).result
        else:
            attributes = {"kernel": tuple(kernel), "strides": op.strides, "dilations": op.dilations, "group": op.group}
            attributes |= {"pads": _pads(op), **_given(grain)}
            result = PackedConvOp(input, packed, columns=outputs, panel=panel, **attributes).result
        return _add_bias(result, op.bias)


class PackDepthwiseConv(Pattern[ConvOp]):
    """conv(x, w, b) {group = channels} --> add(packed_depthwise_conv(x, w with its channels last), b)"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        refusal = _refusal(op)
        if refusal is not None or not _is_depthwise(op):
            return refusal
        outputs, _, *kernel = ir.RankedTensorType(op.weight.type).shape
        flat = ReshapeOp(op.weight, shape=(outputs, *kernel)).result
        weight = TransposeOp(flat, permutation=(*range(1, len(kernel) + 1), 0)).result
        attributes = {"strides": op.strides, "dilations": op.dilations, "pads": _pads(op)}
        result = PackedDepthwiseConvOp(op.input, weight, **attributes).result
        return _add_bias(result, op.bias)


@dataclass(frozen=True)
class PackGroupedConv(Pattern[ConvOp]):
    """conv(x, w, b) {narrow groups} --> add(packed_grouped_conv(x, w with all columns last), b)"""

    machine: Machine
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        refusal = _refusal(op)
        if refusal is not None or _is_depthwise(op) or not _is_narrow(op, self.machine):
            return refusal
        rank = len(ir.RankedTensorType(op.weight.type).shape)
        weight = TransposeOp(op.weight, permutation=(*range(2, rank), 1, 0)).result
        attributes = {"group": op.group, "strides": op.strides, "dilations": op.dilations, "pads": _pads(op)}
        return _add_bias(PackedGroupedConvOp(op.input, weight, **attributes).result, op.bias)


_OTHER_BYTES = "packed kernels multiply ui8 by an i8 weight; other bytes are widened"


def _refusal(op: ConvOp) -> Refusal | None:
    if op.layout != "channels_last":
        return Refusal("the channels are not the last dimension")
    if static_shape(op.weight) is None or static_shape(op.result) is None:
        return Refusal("the shapes are not static")
    return Refusal(_OTHER_BYTES) if must_widen(op) else None


def _pads(op: ConvOp) -> tuple[int, ...]:
    """The padding, () if there is none; in the CPU pipeline it is already a separate op."""
    return tuple(op.pads) if any(op.pads) else ()


def _is_depthwise(op: ConvOp) -> bool:
    outputs, channels = ir.RankedTensorType(op.weight.type).shape[:2]
    return channels == 1 and outputs == op.group


def _is_narrow(op: ConvOp, machine: Machine) -> bool:
    """Returns whether a vector of columns holds whole groups, and a vector of channels holds their inputs."""
    outputs, channels = ir.RankedTensorType(op.weight.type).shape[:2]
    columns, lanes = outputs // op.group, machine.lanes(sum_bytes(op))
    return op.group > 1 and columns < lanes and lanes % columns == 0 and channels <= columns


def _add_bias(value: ir.Value, bias: ir.Value | None) -> ir.Value:
    return value if bias is None else AddOp(value, bias).result
