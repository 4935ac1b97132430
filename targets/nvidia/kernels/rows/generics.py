"""Properties of a linalg.generic."""

from __future__ import annotations

from mlir import ir

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def iterators(op: ir.Operation) -> list[str]:
    """Returns the kinds of a generic's loops: `parallel` or `reduction`."""
    return [str(item).split("<")[1].rstrip(">") for item in ir.ArrayAttr(op.attributes["iterator_types"])]


def maps(op: ir.Operation) -> list[ir.AffineMap]:
    """Returns the indexing maps of a generic, one for every operand."""
    return [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(op.attributes["indexing_maps"])]


def loop_sizes(op: ir.Operation) -> tuple[int, ...]:
    """Returns the extent of each loop of a generic."""
    sizes: dict[int, int] = {}
    for operand, map_ in zip(op.operands, maps(op), strict=True):
        for size, expr in zip(ir.RankedTensorType(operand.type).shape, map_.results, strict=True):
            if isinstance(dim := expr.maybe_downcast(), ir.AffineDimExpr):
                sizes[dim.position] = size
    return tuple(sizes[axis] for axis in range(len(iterators(op))))


def is_read(op: ir.Operation, position: int) -> bool:
    """Returns whether the body of a generic reads this operand."""
    return any(True for _ in op.regions[0].blocks[0].arguments[position].uses)


def through_views(value: ir.Value) -> ir.Value:
    """Returns the source of a chain of reshapes."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _RESHAPES:
        value = value.owner.operands[0]
    return value
