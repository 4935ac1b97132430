"""Replaces every linalg.generic of a kernel by vectorised loops."""

from __future__ import annotations

from mlir import ir

from ....passes.ir.rewriting import walk
from .groups import LoopGroup, form_groups
from .in_place import make_in_place, update_slices
from .interleave import InterleaveNest, interleaved
from .nest import Nest
from .transpose import TransposeNest, transposed_inputs
from .widths import Widths


def vectorize_loops(kernel: ir.Operation, widths: Widths, may_overwrite: bool = True) -> None:
    """Replaces the linalg.generic ops inside `kernel` by loops over vectors.

    Args:
        kernel: the function.
        widths: number of lanes of its vectors.
        may_overwrite: whether temporaries may be stored in the memory of results.
    """
    blocks = {op.block: None for op in walk(kernel) if op.name == "linalg.generic"}
    for block in blocks:
        groups = form_groups(block)
        update_slices(groups)
        if may_overwrite:
            make_in_place(groups)
        for group in groups:
            _replace(group, widths)
    _erase_dead(kernel)


def _replace(group: LoopGroup, widths: Widths) -> None:
    last = group.ops[-1].op
    stored = group.stored()
    with last.location, ir.InsertionPoint(last):
        nest = _nest(group, widths)
        values = nest.emit()
    for (generic, number), value in zip(stored, values, strict=True):
        generic.results[number].replace_all_uses_with(value)
    for generic in reversed(group.ops):
        generic.op.erase()


def _nest(group: LoopGroup, widths: Widths) -> Nest | TransposeNest | InterleaveNest:
    """Returns the emitter for a group."""
    (generic, *others) = group.ops
    if others:
        return Nest(group, widths)
    if rows := interleaved(generic):
        return InterleaveNest(generic, rows, widths)
    return TransposeNest(generic, widths) if transposed_inputs(generic) else Nest(group, widths)


def _erase_dead(kernel: ir.Operation) -> None:
    """Erases fills and padding that only gave the start values of reductions or the surroundings of an operand."""
    for op in reversed(
        [op for op in walk(kernel) if op.name in ("linalg.generic", "tensor.pad", "tensor.extract_slice")]
    ):
        if not any(True for result in op.results for _ in result.uses):
            op.erase()
