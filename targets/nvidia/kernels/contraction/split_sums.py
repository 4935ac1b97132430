"""`stepwell-split-sums`: splits long sums with few results over blocks that would otherwise be idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from .....dialects import discardable
from .....lowering.builders.generics import constant, generic, multiply_add, zero_of
from .....lowering.builders.spaces import expand
from .....passes.infra.base import Pass, register
from .....passes.infra.state import CompileState
from .....passes.ir.functions import kernels_in
from ...emission.views import memories
from ...target import GpuTarget
from .choose import ContractionRequest, choose, shared_bytes
from .cost import cycles, gathering
from .emit import request_of
from .matching import Contraction, contraction_of, maps_of
from .tiles import Problem
from .tuned import PARTS, tuned_numbers

# Maximum number of parts, minimum depth of a part, and the divisor of the innermost depth of a part: choices that keep
# the number of candidates small, and parts long enough for whole tiles.
_MOST_SPLITS, _LEAST_DEPTH, _UNIT = 64, 64, 32
# Required ratio of estimated times: a second launch has costs that the model does not cover.
_WORTH_IT = 0.8


@register
@dataclass(frozen=True)
class SplitSumsPass(Pass):
    """Split the sums of a contraction into parts if its result has too few tiles to keep a GPU busy.

    ```mlir
    %y = linalg.generic {(m, n, k): %x[m, k] * %w[k, n]} outs(%zero : tensor<8x512xf32>)
    // -->
    %parts = linalg.generic {(s, m, n, k): %x[m, s * 512 + k] * %w[s * 512 + k, n]} outs(%zeros : tensor<8x8x512xf32>)
    %y = linalg.generic {(m, n, s): %parts[s, m, n]} outs(%zero : tensor<8x512xf32>)
    ```

    One launch computes the parts, another their sum. The order of the sums is fixed, so that results are reproducible.

    Attributes:
        target: the GPU, in the form that `GpuTarget.parse` accepts.

    A tuned kernel gets the number of parts that the tuner found.

    Preconditions: phase `kernels`.
    """

    name = "stepwell-split-sums"
    target: str = "cuda:sm_80"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Splits the contractions in the kernels of a module."""
        target = GpuTarget.parse(self.target)
        for kernel in kernels_in(op):
            _split_kernel(kernel, target)


def _split_kernel(function: ir.Operation, target: GpuTarget) -> None:
    contraction = contraction_of(function)
    request = None if contraction is None else request_of(contraction, memories(function), target)
    if contraction is None or request is None or not can_split(contraction):
        return
    depths = contraction.sizes(contraction.depth)
    found = _tuned_split(function, depths, request.problem.depth) or best_split(request, depths, target)
    found = None if found is not None and found[1] == 1 else found
    if found is not None:
        place, parts = found
        _rewrite(contraction, contraction.depth[place], parts)


def can_split(contraction: Contraction) -> bool:
    """Returns whether parts of the sums can be added up by another launch."""
    return str(_total(contraction)) == "f32"


def _tuned_split(function: ir.Operation, depths: Sequence[int], depth: int) -> tuple[int, int] | None:
    """Returns the dimension and the number of parts that a tuner found for a kernel; one part for no split."""
    parts = (tuned_numbers(function) or {}).get(PARTS)
    if parts is None or parts == 1:
        return None if parts is None else (0, 1)
    return next((option for option in divisions(depths, depth) if option[1] == parts), None)


def best_split(request: ContractionRequest, depths: Sequence[int], target: GpuTarget) -> tuple[int, int] | None:
    """Returns the dimension of the sum to split and the number of parts; None if splitting does not pay off.

    Args:
        request: request of the whole contraction.
        depths: sizes of the dimensions that are summed over, the innermost last.
        target: the GPU.
    """
    capability = target.capability
    assert capability is not None

    def cost(wanted: ContractionRequest) -> float:
        tiling, bytes = choose(wanted, capability), wanted.element_bytes
        shared = shared_bytes(tiling, bytes)
        return cycles(wanted.problem, tiling, wanted.compute, bytes, shared, capability, wanted.units)

    whole = cost(request)
    options = {
        (place, parts): cost(replace(request, problem=part_of(request.problem, parts)))
        + gathering(request.problem, parts, capability)
        for place, parts in divisions(depths, request.problem.depth)
    }
    best = min(options, key=lambda option: options[option], default=None)
    return best if best is not None and options[best] < _WORTH_IT * whole else None


def divisions(depths: Sequence[int], depth: int) -> Iterator[tuple[int, int]]:
    """Yields the dimensions of a sum that can be split, each with a possible number of parts.

    Args:
        depths: sizes of the dimensions that are summed over, the innermost last.
        depth: their product.
    """
    for place, size in enumerate(depths):
        unit = _UNIT if place == len(depths) - 1 else 1
        for parts in range(2, min(_MOST_SPLITS, size) + 1):
            if size % parts == 0 and size // parts % unit == 0 and depth // parts >= _LEAST_DEPTH:
                yield place, parts


def part_of(problem: Problem, parts: int) -> Problem:
    """Returns the sizes of a contraction whose sums are split."""
    return replace(problem, batch=problem.batch * parts, depth=problem.depth // parts)


def _rewrite(contraction: Contraction, dim: int, parts: int) -> None:
    op = contraction.op
    size, rank = contraction.extents[dim] // parts, len(contraction.results_at())
    loops = len(contraction.extents)
    split, sizes = ir.AffineExpr.get_dim(0), (parts, size)
    inner: list[ir.AffineExpr] = [ir.AffineExpr.get_dim(place + 1) for place in range(loops)]
    place_of = split * size + inner[dim]
    shifted = ir.AffineMap.get(loops + 1, 0, [place_of if place == dim else part for place, part in enumerate(inner)])
    *reads, out = ([item.compose(shifted) for item in affine.results] for affine in maps_of(op))
    kind = ir.RankedTensorType(contraction.result.type)
    with op.location, ir.InsertionPoint(op):
        zero = constant(zero_of(kind.element_type))
        empty = tensor.EmptyOp([parts, *kind.shape], kind.element_type).result
        zeros = linalg.fill(zero, outs=[empty])
        operands = [_expanded(value, items, place_of, sizes) for value, items in zip(op.operands, reads, strict=False)]
        reads = [_parted(items, place_of, (split, inner[dim])) for items in reads]
        maps = [ir.AffineMap.get(loops + 1, 0, items) for items in (*reads, [split, *out])]
        made = generic(operands, zeros, maps, loops + 1 - len(contraction.depth), multiply_add)
        discardable.CONTRACTION.copy(op, made)
        discardable.MATERIALIZE.write(made, True)
        dims = [ir.AffineExpr.get_dim(place) for place in range(rank)]
        parts_at = ir.AffineMap.get(rank + 1, 0, [ir.AffineExpr.get_dim(rank), *dims])
        sum_at = ir.AffineMap.get(rank + 1, 0, dims)
        total = generic(list(made.results), op.operands[2], [parts_at, sum_at], rank, _add)
        discardable.ROOT.copy(op, total)
    contraction.result.replace_all_uses_with(total.results[0])
    op.erase()


def _expanded(value: ir.Value, items: Sequence[ir.AffineExpr], place: ir.AffineExpr, sizes: Sequence[int]) -> ir.Value:
    """Expands the operand's dimension that is split, if its index is the split dimension alone."""
    axes = [axis for axis, item in enumerate(items) if item == place]
    return expand(value, axes[0], sizes) if axes else value


def _parted(
    items: Sequence[ir.AffineExpr], place: ir.AffineExpr, parts: Sequence[ir.AffineExpr]
) -> list[ir.AffineExpr]:
    """Returns the indices into the operand that `_expanded` returns."""
    return [part for item in items for part in (parts if item == place else [item])]


def _add(part: ir.Value, so_far: ir.Value) -> ir.Value:
    return arith.addf(so_far, part)


def _total(contraction: Contraction) -> ir.Type:
    return ir.RankedTensorType(contraction.result.type).element_type
