"""Rules for convolution and pooling of varying dimensions: windows beyond the data must read neutral padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects.dims import Dim
from ...dialects.stepwell.contraction import ConvOp, ConvTransposeOp
from ...dialects.stepwell.elementwise import (
    DivOp,
)
from ...dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp
from ...dialects.stepwell.reduction import least_of
from ...dialects.stepwell.windows import CHANNELS_FIRST
from ..graph.values import dtype_of, splat_constant, static_shape
from .borders import Border, bordered
from .checks import require_static_attributes
from .errors import RangesError
from .extents import count_of, is_dynamic, prefix, whole
from .layout import compacted, set_operands
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents, inferred
from .states import OpState


@PADDING.attach(ConvOp, ConvTransposeOp, MaxPoolOp, AveragePoolOp, SumPoolOp)
def windows(graph: Rewriter, op: Any, state: OpState) -> ResultExtents | None:
    """Fills padding where windows reach beyond the data; offsets that depend on sizes become explicit borders."""
    require_static_attributes(state, but=("pads",))
    rank = len(graph.of(op.input)) - 2
    spatial = range(2, rank + 2) if op.layout == CHANNELS_FIRST else range(1, rank + 1)
    op.operation.operands[0] = compacted(graph, op.input, spatial)
    extents = graph.of(op.input)
    if isinstance(op, ConvOp | ConvTransposeOp):
        _keep_channels(graph, op, 1 if op.layout == CHANNELS_FIRST else rank + 1)
        kernel = (static_shape(op.weight) or ())[2:]
    else:
        kernel = op.kernel
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, op.dilations, strict=True)]
    if isinstance(op, ConvTransposeOp):
        require_static_attributes(state)
        overlaps = [size > step for size, step in zip(reach, op.strides, strict=True)]
    else:
        # Winograd's method sums more than a window; the excess cancels only if it is finite.
        is_tiled = isinstance(op, ConvOp) and set(kernel) == {3}
        overlaps = [
            (is_tiled and not graph.repeats_data(op.input, axis))
            or state.attributes["pads"][dim + rank] != 0
            or getattr(op, "ceil_mode", False)
            for dim, axis in enumerate(spatial)
        ]
    axes = [axis for axis, overlap in zip(spatial, overlaps, strict=True) if overlap and is_dynamic(extents[axis])]
    otherwise = float(least_of(dtype_of(op.input))) if isinstance(op, MaxPoolOp | MaxPoolIndicesOp) else 0.0
    lows = _lows(state, rank)
    moved = [dim for dim in range(rank) if not isinstance(lows[dim], int)]
    if isinstance(op, AveragePoolOp) and (moved or (axes and not _counts_all(op))):
        _replace_mean(graph, op, state)
        return None
    op.operation.operands[0] = graph.masked(
        op.input, [axis for axis in axes if axis - spatial[0] not in moved], otherwise
    )
    if not moved and not _pads_vary(state):
        return inferred(graph, op, state)
    return _with_moved_windows(graph, op, state, spatial, reach, moved, otherwise)


def _keep_channels(graph: Rewriter, op: ConvOp | ConvTransposeOp, channels: int) -> None:
    """Sets input and weight to 0 beyond the data along the channels that are summed: 0 times padding may be NaN.

    Raises:
        RangesError: the extent of the windows or the number of channels of a group varies.
    """
    if op.group > 1 and (graph.dynamic(op.weight) or channels in graph.dynamic(op.input)):
        raise RangesError("the number of channels of a group varies")
    summed = 0 if isinstance(op, ConvTransposeOp) else 1
    input, weight, *bias = op.operation.operands
    operands = [compacted(graph, input, [channels]), compacted(graph, weight, (0, 1))]
    set_operands(op, [*operands, *(compacted(graph, value, [0]) for value in bias)])
    op.operation.operands[0] = graph.masked(op.input, [channels], 0.0)
    op.operation.operands[1] = graph.masked(op.weight, [summed], 0.0)


def _lows(state: OpState, rank: int) -> list[Dim]:
    return [state.attributes["pads"][dim] for dim in range(rank)]


def _pads_vary(state: OpState) -> bool:
    return "pads" in state.varying


def _counts_all(op: AveragePoolOp) -> bool:
    return op.count_include_pad and not op.ceil_mode


def _with_moved_windows(
    graph: Rewriter,
    op: Any,
    state: OpState,
    spatial: Sequence[int],
    reach: Sequence[int],
    moved: Sequence[int],
    otherwise: float,
) -> ResultExtents | None:
    """Convolves or pools data with an explicit border before it if the padding there depends on sizes."""
    shape = static_shape(op.operation.results[0]) or ()
    rank = len(reach)
    value, pads, lows = op.input, list(op.pads), _lows(state, rank)
    for dim in moved:
        axis = spatial[dim]
        size = (shape[axis] - 1) * op.strides[dim] + reach[dim]
        count = state.shapes[0][axis]
        border = Border(axis, lows[dim], (count - 1) * op.strides[dim] + reach[dim], size)
        value = bordered(graph, value, border, "constant", otherwise)
        pads[dim] = pads[dim + rank] = 0
    found = [*graph.of(value)]
    result = found
    if isinstance(op, ConvOp | ConvTransposeOp):
        result = [found[0], *(whole(size) for size in shape[1:])]
        channels = 1 if op.layout == CHANNELS_FIRST else rank + 1
        result[channels] = prefix(state.shapes[0][channels], shape[channels])
    for axis in spatial:
        result[axis] = prefix(state.shapes[0][axis], shape[axis])
    for dim in range(rank):
        if dim not in moved and not getattr(op, "ceil_mode", False):
            pads[dim + rank] = _last_padding(op, dim, spatial[dim], reach[dim])
    if pads == list(op.pads):
        return [result]
    attributes = {**op.attribute_values(), "pads": tuple(pads)}
    operands = [value, *list(op.operation.operands)[1:]]
    replace(op, graph.noted(type(op)(*operands, **attributes), result))
    return None


def _last_padding(op: Any, dim: int, axis: int, reach: int) -> int:
    """Returns the padding at the end of a dimension with which the last window is that of the greatest result.

    The greatest padding need not belong to the greatest size: a size of at most 900 that is padded to a multiple of 8
    takes up to 7 elements, but at most 904 are read.
    """
    input, result = (static_shape(value) or () for value in (op.input, op.operation.results[0]))
    rank = len(op.strides)
    needed = (result[axis] - 1) * op.strides[dim] + reach - op.pads[dim] - input[axis]
    return min(op.pads[dim + rank], max(needed, 0))


def _replace_mean(graph: Rewriter, op: AveragePoolOp, state: OpState) -> None:
    """average_pool(x) --> sum_pool(x) / sum_pool(1), because the number of averaged elements depends on the sizes."""
    extents, shape = graph.of(op.input), static_shape(op.input) or ()
    rank = len(op.kernel)
    spatial = range(2, rank + 2) if op.layout == CHANNELS_FIRST else range(1, rank + 1)
    attributes = {name: value for name, value in op.attribute_values().items() if name != "count_include_pad"}
    dtype = dtype_of(op.input)
    pads = tuple(op.pads)
    sizes, counted = [1] * len(shape), [whole(1)] * len(shape)
    for dim, axis in enumerate(spatial):
        added = pads[dim] + pads[dim + rank] if op.count_include_pad else 0
        if added and _pads_vary(state):
            raise RangesError("the number of padding zeros in a mean depends on the sizes")
        sizes[axis] = shape[axis] + added
        counted[axis] = prefix(count_of(extents[axis]) + added, sizes[axis])
    ones = splat_constant(dtype.type(1), sizes)
    graph.extents[ones] = counted
    parts: list[ir.Value] = []
    for value, own in ((op.input, pads), (ones, (0,) * len(pads) if op.count_include_pad else pads)):
        part = SumPoolOp(value, **{**attributes, "pads": own})
        parts.append(_windowed(graph, part, state, own != pads))
    total, count = parts
    replace(op, graph.noted(DivOp(total, count), graph.of(total)))


def _windowed(graph: Rewriter, op: SumPoolOp, state: OpState, is_padded: bool) -> ir.Value:
    """The result of a new pooling op, made correct for every size."""
    result = op.operation.results[0]
    with ir.InsertionPoint(op.operation):
        if is_padded:
            rank = len(op.kernel)
            spatial = range(2, rank + 2) if op.layout == CHANNELS_FIRST else range(1, rank + 1)
            op.operation.operands[0] = graph.masked(op.input, spatial, 0.0)
            found = inferred(graph, op, state)
        else:
            found = windows(graph, op, state)
    if found is None:
        raise RangesError("the padding before the windows of a mean depends on the sizes")
    graph.extents[result] = list(found[0])
    return result
