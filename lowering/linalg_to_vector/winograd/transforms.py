"""Winograd transforms as vector code: vectors run along channels, one tile at a time.

    linalg.generic {stepwell.winograd = "input"} ins(a window of the padded image, B^T, B^T)
    // -->
    scf.for row, column of tiles
      scf.if the tile's pixels are inside of the image     // otherwise, pixels outside are replaced by 0
        scf.for 16 channels: 36 reads, the matrix along both directions, 36 writes

The generics "output" and "epilogue" become one such loop, in which results stay in registers between the two.
"""

from __future__ import annotations

from mlir import ir

from ....dialects import discardable
from ....passes.ir.rewriting import identity, walk
from .input import InputTransform
from .output import OutputTransform

_VIEWS = ("linalg.fill", "tensor.collapse_shape", "tensor.extract_slice", "tensor.pad", "tensor.empty")


def vectorize_transforms(kernel: ir.Operation, lanes: int) -> None:
    """Replaces the transforms of a tiled kernel, and their epilogues, by loops over vectors of `lanes` elements."""
    tagged = [op for op in walk(kernel) if discardable.WINOGRAD.is_on(op)]
    for op in tagged:
        step = discardable.WINOGRAD.required(op)
        with op.location, ir.InsertionPoint(op):
            if step == "input":
                op.results[0].replace_all_uses_with(InputTransform.of(op, lanes).emit())
            elif step == "epilogue":
                op.results[0].replace_all_uses_with(OutputTransform.of(op, lanes).emit())
    for op in reversed(tagged):
        _erase_unread(op)


def _erase_unread(op: ir.Operation) -> None:
    """Erases an unused op, and views and fills that only it used."""
    if any(True for result in op.results for _ in result.uses):
        return
    makers = [value.owner.operation for value in op.operands if not isinstance(value.owner, ir.Block)]
    op.erase()
    for maker in {identity(item): item for item in makers}.values():
        if maker.name in _VIEWS:
            _erase_unread(maker)
