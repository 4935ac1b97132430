"""Splitting of long reductions with few results into partial reductions that fill the device, and their combination.

    %r = generic {reduces k} : sum(%x[k])
    // -->
    %parts = generic {p: parallel, reduces l} : sum(%x[p, l])      // a separate launch
    %r = generic {reduces p} : sum(%parts[p])

The order of the sums is fixed, so that results are reproducible.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import linalg, tensor

from .....dialects import discardable
from .....lowering.builders.tensors import structured
from .....passes.ir.functions import body_of
from ...emission.bodies import evaluate
from ...emission.views import memories, memory_of
from ...target import GpuTarget
from .assignment import NoRows
from .axes import merged_axes
from .combiners import Combiner
from .generics import iterators, loop_sizes, maps
from .schedule import choose
from .space import row_space

# Minimum elements per part, so that the work of a block's threads outweighs their start-up.
_LEAST_PART = 1024
_FEWEST_PARTS = 4
"""Minimum number of parts: fewer do not pay for the second launch; a choice."""
_BLOCKS_PER_MULTIPROCESSOR = 2
"""Blocks of parts per multiprocessor: a choice; while one waits for memory, another computes."""


def split_long_reduction(kernel: ir.Operation, target: GpuTarget) -> None:
    """Splits the reduction of a kernel with a single one, if the kernel leaves most of the device idle."""
    assert target.capability is not None
    found = [op.operation for op in body_of(kernel).operations if op.operation.name == "linalg.generic"]
    reductions = [op for op in found if "reduction" in iterators(op)]
    if len(reductions) != 1:
        return
    (reduction,) = reductions
    known = memories(kernel)
    try:
        space = row_space(kernel, known)
    except NoRows:
        return
    if any(memory_of(operand, known) is None for operand in list(reduction.operands)[:-1]) or _reads_indices(reduction):
        return
    axes, multiprocessors = merged_axes(space), target.capability.multiprocessors
    blocks = choose(space, axes, multiprocessors).blocks(space, axes)
    sizes = loop_sizes(reduction)
    loop = max(
        (axis for axis, kind in enumerate(iterators(reduction)) if kind == "reduction"), key=lambda at: sizes[at]
    )
    most = min(
        multiprocessors * _BLOCKS_PER_MULTIPROCESSOR // blocks,
        sizes[loop],
        space.extent(tuple(space.columns)) // _LEAST_PART,
    )
    parts = next((number for number in range(most, 0, -1) if sizes[loop] % number == 0), 1)
    if parts >= _FEWEST_PARTS:
        _split(reduction, space.combiners[reduction.results[0]], loop, parts)


def _reads_indices(op: ir.Operation) -> bool:
    return any(inner.operation.name == "linalg.index" for inner in op.regions[0].blocks[0].operations)


def _split(reduction: ir.Operation, combiner: Combiner, loop: int, parts: int) -> None:
    """Reduces `parts` parts of a loop separately, then combines their results."""
    result = reduction.results[0]
    kind = ir.RankedTensorType(result.type)
    *_, out = maps(reduction)
    count = out.n_dims
    # The loops of the partial reduction: the part, then the original loops, where `loop` runs within a part.
    shifted = [ir.AffineExpr.get_dim(axis + 1) for axis in range(count)]
    outer = ir.AffineExpr.get_dim(0)
    with reduction.location, ir.InsertionPoint(reduction):
        operands, places = [], []
        for operand, map_ in zip(list(reduction.operands)[:-1], list(maps(reduction))[:-1], strict=True):
            axes = [_loop_of(expr) for expr in map_.results]
            operands.append(_cut(operand, axes.index(loop), parts) if loop in axes else operand)
            places.append([item for axis in axes for item in ([outer] if axis == loop else []) + [shifted[axis]]])
        empty = tensor.EmptyOp([parts, *kind.shape], kind.element_type).result
        start = linalg.fill(combiner.start(), outs=[empty])
        places.append([outer, *(shifted[_loop_of(expr)] for expr in out.results)])
        letters = "p" + "".join("r" if name == "reduction" else "p" for name in iterators(reduction))
        (partial,) = structured(operands, [start], places, letters, lambda *items: evaluate(reduction, items))
        discardable.MATERIALIZE.write(partial.owner, True)
        rows = [ir.AffineExpr.get_dim(axis) for axis in range(len(kind.shape))]
        part = ir.AffineExpr.get_dim(len(rows))
        last = [[part, *rows], rows]
        start = list(reduction.operands)[-1]
        letters = "p" * len(rows) + "r"
        (total,) = structured([partial], [start], last, letters, lambda term, sum_: combiner.combine(sum_, term))
    result.replace_all_uses_with(total)
    reduction.erase()


def _loop_of(expr: ir.AffineExpr) -> int:
    return ir.AffineDimExpr(expr).position


def _cut(operand: ir.Value, axis: int, parts: int) -> ir.Value:
    """Splits a dimension of the operand into parts and the elements of a part."""
    shape = list(ir.RankedTensorType(operand.type).shape)
    cut = [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]]
    runs = [[place + (place > axis)] for place in range(len(shape))]
    runs[axis] = [axis, axis + 1]
    kind = ir.RankedTensorType.get(cut, ir.RankedTensorType(operand.type).element_type)
    return tensor.expand_shape(kind, operand, runs, [], cut)
