"""Builds linalg on tensors for ops that are not contractions: elementwise ops, reductions, copies, reshapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...passes.ir.values import element_type_of, shape_of

EmitBody = Callable[..., ir.Value]


def empty(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """Makes a tensor without contents."""
    return tensor.EmptyOp(list(shape), element).result


def filled(scalar: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Makes a tensor with `scalar` everywhere."""
    return linalg.fill(scalar, outs=[empty(shape, scalar.type)])


def structured(
    inputs: Sequence[ir.Value],
    outs: Sequence[ir.Value],
    maps: Sequence[Sequence[ir.AffineExpr]],
    iterators: str,
    body: Callable[..., Sequence[ir.Value] | ir.Value],
) -> list[ir.Value]:
    """Makes a linalg.generic.

    Args:
        inputs: operands that are only read.
        outs: destinations.
        maps: index expressions of each input, then of each destination.
        iterators: one letter per loop, `p` parallel or `r` reduction.
        body: takes one scalar per input and destination, and returns one per destination.
    """
    kinds = {"p": "parallel", "r": "reduction"}
    loops = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kinds[letter]}>") for letter in iterators])
    indexing = [ir.AffineMapAttr.get(ir.AffineMap.get(len(iterators), 0, list(exprs))) for exprs in maps]
    op = linalg.GenericOp([out.type for out in outs], list(inputs), list(outs), ir.ArrayAttr.get(indexing), loops)
    block = op.regions[0].blocks.append(*(element_type_of(value) for value in (*inputs, *outs)))
    with ir.InsertionPoint(block):
        made = body(*block.arguments)
        linalg.YieldOp([made] if isinstance(made, ir.Value) else list(made))
    return list(op.operation.results)


def dims(count: int) -> list[ir.AffineExpr]:
    """Returns the loop dimensions in order."""
    return [ir.AffineExpr.get_dim(position) for position in range(count)]


def broadcast_map(shape: Sequence[int], onto: Sequence[int]) -> list[ir.AffineExpr]:
    """Returns the index expressions of a tensor of `shape`, broadcast as in numpy, in loops over `onto`."""
    offset = len(onto) - len(shape)
    zero = ir.AffineExpr.get_constant(0)
    return [
        ir.AffineExpr.get_dim(offset + axis) if extent == onto[offset + axis] else zero
        for axis, extent in enumerate(shape)
    ]


def elementwise_generic(inputs: Sequence[ir.Value], out: ir.Value, body: EmitBody) -> ir.Value:
    """Emits `body` of every element; inputs broadcast to the shape of `out`."""
    wide = shape_of(out)
    maps = [broadcast_map(shape_of(value), wide) for value in inputs]
    results = structured(inputs, [out], [*maps, dims(len(wide))], "p" * len(wide), lambda *values: body(*values[:-1]))
    return results[0]


def elementwise_over(
    inputs: Sequence[ir.Value], body: EmitBody, like: ir.Value, element: ir.Type | None = None
) -> ir.Value:
    """Like `elementwise_generic`, with a new destination of the shape of `like`."""
    return elementwise_generic(inputs, empty(shape_of(like), element or element_type_of(like)), body)


def reduce(
    value: ir.Value, axes: Sequence[int], start: ir.Value, body: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Reduces and removes the dimensions `axes` of `value` by `body(element, accumulator)`; `start` must be neutral."""
    shape = shape_of(value)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    out = filled(start, [shape[axis] for axis in kept])
    loops = dims(len(shape))
    iterators = "".join("r" if axis in axes else "p" for axis in range(len(shape)))
    return structured([value], [out], [loops, [loops[axis] for axis in kept]], iterators, body)[0]


def along(value: ir.Value, reduced: Sequence[ir.Value], axes: Sequence[int], body: EmitBody, out: ir.Value) -> ir.Value:
    """Emits `body` for every element of `value`, with the elements of tensors that lack the dimensions `axes`."""
    loops = dims(len(shape_of(value)))
    kept = [loop for axis, loop in enumerate(loops) if axis not in axes]
    maps = [loops, *[kept] * len(reduced), loops]
    inputs = [value, *reduced]
    return structured(inputs, [out], maps, "p" * len(loops), lambda *values: body(*values[:-1]))[0]


def copy(value: ir.Value, out: ir.Value, exprs: Sequence[ir.AffineExpr] | None = None) -> ir.Value:
    """Copies `value`, indexed by `exprs` over the loops of `out` (in order by default), to `out`."""
    loops = dims(len(shape_of(out)))
    maps = [loops if exprs is None else exprs, loops]
    return structured([value], [out], maps, "p" * len(loops), lambda element, _: element)[0]


def insert(value: ir.Value, into: ir.Value, offsets: Sequence[int]) -> ir.Value:
    """Returns `into` with `value` at `offsets`."""
    sizes, ones = shape_of(value), [1] * len(offsets)
    return tensor.InsertSliceOp(value, into, [], [], [], list(offsets), sizes, ones).result


def loop_index(dim: int) -> ir.Value:
    """Returns the index of a loop, in the body of a linalg.generic."""
    return linalg.IndexOp(dim).result


def with_shape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Returns the same elements in row-major order in another shape."""
    old = shape_of(value)
    if old == tuple(shape):
        return value
    groups = reassociation(old, shape)
    kind = ir.RankedTensorType.get(list(shape), element_type_of(value))
    if groups is not None and len(shape) > len(old):
        return tensor.ExpandShapeOp(kind, value, groups, [], list(shape)).result
    if groups is not None:
        return tensor.CollapseShapeOp(kind, value, groups).result
    row = ir.RankedTensorType.get([math.prod(old)], element_type_of(value))
    flat = value if len(old) == 1 else tensor.CollapseShapeOp(row, value, [list(range(len(old)))]).result
    return tensor.ExpandShapeOp(kind, flat, [list(range(len(shape)))], [], list(shape)).result


def reassociation(old: Sequence[int], new: Sequence[int]) -> list[list[int]] | None:
    """Returns the dimensions of the longer shape that merge to each of the shorter one; None if no grouping does."""
    short, long = sorted((list(old), list(new)), key=len)
    if not short:
        return [] if all(extent == 1 for extent in long) else None
    groups: list[list[int]] = []
    position = 0
    for extent in short:
        group, total = [position], long[position] if position < len(long) else None
        while total is not None and total < extent and position + 1 < len(long):
            position += 1
            group.append(position)
            total *= long[position]
        if total != extent:
            return None
        groups.append(group)
        position += 1
    if any(extent != 1 for extent in long[position:]):
        return None
    groups[-1].extend(range(position, len(long)))
    return groups if len(short) < len(long) else None


def constant_tensor(values: Sequence[int | float], element: ir.Type) -> ir.Value:
    """Makes a small table of one dimension."""
    kind = ir.RankedTensorType.get([len(values)], element)
    if isinstance(element, ir.FloatType):
        items: list[ir.Attribute] = [ir.FloatAttr.get(element, value) for value in values]
    else:
        items = [ir.IntegerAttr.get(element, int(value)) for value in values]
    return arith.constant(kind, ir.DenseElementsAttr.get(items, kind))


def pad_with(value: ir.Value, low: Sequence[int], high: Sequence[int], scalar: ir.Value) -> ir.Value:
    """Pads `value` with `scalar` by a tensor.pad; reductions for which the scalar is neutral skip the padding."""
    if not any((*low, *high)):
        return value
    shape = [before + extent + after for before, extent, after in zip(low, shape_of(value), high, strict=True)]
    op = tensor.PadOp(ir.RankedTensorType.get(shape, element_type_of(value)), value, [], [], list(low), list(high))
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(block):
        tensor.YieldOp(scalar)
    return op.result
