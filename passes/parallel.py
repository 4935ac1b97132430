"""Parallel loops, as several passes see them."""

from __future__ import annotations

from mlir import ir

from .base import PassError

SLOTS = "stepwell.slots"
"""On a parallel loop: of how many ranges of its rounds there is memory for each; one that lacks it needs none."""

SLOT_BYTES = "stepwell.slot_bytes"
"""On such a loop, and on the views of the workspace in it: how far apart two slots are."""


def trip_counts(loop: ir.Operation) -> list[int]:
    """How many rounds an scf.forall makes along each dimension.

    Raises:
        PassError: a bound is not constant.
    """
    bounds = [list(ir.DenseI64ArrayAttr(loop.attributes[f"static{name}"])) for name in _BOUNDS]
    if any(ir.ShapedType.is_dynamic_size(bound) for group in bounds for bound in group):
        raise PassError("the bounds of a parallel loop are not constant", loop.location)
    return [-(-(upper - lower) // step) for lower, upper, step in zip(*bounds, strict=True)]


_BOUNDS = ("LowerBound", "UpperBound", "Step")
