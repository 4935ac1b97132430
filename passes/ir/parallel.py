"""Trip counts of parallel loops, shared by several passes."""

from __future__ import annotations

from mlir import ir

from ..infra.base import PassError


def trip_counts(loop: ir.Operation) -> list[int]:
    """The number of iterations of an scf.forall along each dimension.

    Raises:
        PassError: a bound is not constant.
    """
    bounds = [list(ir.DenseI64ArrayAttr(loop.attributes[f"static{name}"])) for name in _BOUNDS]
    if any(ir.ShapedType.is_dynamic_size(bound) for group in bounds for bound in group):
        raise PassError("the bounds of a parallel loop are not constant", loop.location)
    return [-(-(upper - lower) // step) for lower, upper, step in zip(*bounds, strict=True)]


_BOUNDS = ("LowerBound", "UpperBound", "Step")
