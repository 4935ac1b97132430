"""Weights that a kernel packs: each panel before the rows are multiplied with it."""

from __future__ import annotations

from mlir import ir

from ...dialects import discardable


def packing_of(contraction: ir.Operation | ir.OpView) -> ir.Operation | None:
    """Returns the op that packs the weight of a contraction, if its kernel does so."""
    maker = contraction.operands[1].owner
    return None if isinstance(maker, ir.Block) or not discardable.PACKING.is_on(maker.operation) else maker.operation
