"""Collapses dimensions that every op of a kernel iterates over together, so that the innermost loops are long.

linalg.generic {maps = [(h, w, c) -> (h, w, c), (h, w, c) -> (c)]} ins(%x, %b : tensor<8x8x24xf32>, tensor<24xf32>)
// -->
linalg.generic {maps = [(p, c) -> (p, c), (p, c) -> (c)]} ins(%x as tensor<64x24xf32>, %b)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import linalg, tensor

from ...passes.kernel.demand import varying_rows
from ..builders.strides import breaks, strides_of, strides_of_made

# Ops that may make or read a tensor with collapsed dimensions; a collapsed slice would be a copy.
_RESHAPES = {"tensor.collapse_shape", "tensor.expand_shape"}
_MAKERS = {"linalg.generic", "linalg.fill", "tensor.empty", "arith.constant"}
_READERS = {"linalg.generic", "linalg.fill", "func.return", *_RESHAPES}


class _Loops:
    """A linalg.generic with its maps as loop numbers (None for an index that is not a single loop)."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        maps = [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(op.attributes["indexing_maps"])]
        self.count = maps[0].n_dims
        self.exprs = [list(item.results) for item in maps]
        self.maps = [[_plain(expr) for expr in exprs] for exprs in self.exprs]
        self.iterators = [str(item) for item in ir.ArrayAttr(op.attributes["iterator_types"])]
        self.joined = [self._may_join(loop) for loop in range(self.count - 1)]

    def _may_join(self, loop: int) -> bool:
        return self.iterators[loop] == self.iterators[loop + 1] and not {loop, loop + 1} & self._single()

    def _single(self) -> set[int]:
        """Returns the loops that the body or an index expression uses individually."""
        found = {
            ir.IntegerAttr(op.attributes["dim"]).value
            for op in self.op.regions[0].blocks[0].operations
            if op.name == "linalg.index"
        }
        for exprs in self.exprs:
            for expr in exprs:
                if _plain(expr) is None:
                    found |= {loop for loop in range(self.count) if _uses(expr, loop)}
        return found

    def groups(self) -> list[list[int]]:
        """Returns the groups of loops that are collapsed into one."""
        return _groups(self.joined)


def collapse(kernel: ir.Operation) -> None:
    """Collapses the dimensions of every linalg.generic in the body of `kernel`."""
    loops = [_Loops(op.operation) for op in kernel.regions[0].blocks[0].operations if op.name == "linalg.generic"]
    joined = _solve(loops, strides_of_made(kernel), _apart(kernel))
    collapsed: dict[ir.Value, ir.Value] = {}
    replaced = [generic.op for generic in loops if _rewrite(generic, joined, collapsed)]
    # Erased only now: a new op in the memory of an erased one would be mistaken for it.
    for op in reversed(replaced):
        op.erase()


def _apart(kernel: ir.Operation) -> list[tuple[int, bool]]:
    """Returns the sizes of a kernel's result, each with whether it is not joined with those before; without sizes of 1.

    Tensors in a kernel may lack dimensions of 1.
    """
    shape = ir.RankedTensorType(list(kernel.regions[0].blocks[0].operations)[-1].operands[0].type).shape
    apart = varying_rows(kernel, shape)
    return [(size, axis in apart) for axis, size in enumerate(shape) if size != 1]


def _solve(
    generics: Sequence[_Loops], made: Mapping[ir.Value, Sequence[int]], apart: Sequence[tuple[int, bool]]
) -> dict[ir.Value, list[bool]]:
    """Returns the neighbouring dimensions of each tensor that can be joined; restricts `joined` of the ops to them."""
    joined: dict[ir.Value, list[bool]] = {}
    for generic in generics:
        for value in [*generic.op.operands, *generic.op.results]:
            if isinstance(value.type, ir.RankedTensorType) and value not in joined:
                joined[value] = _joined(value, made)
                sizes = list(ir.RankedTensorType(value.type).shape)
                axes = [axis for axis, size in enumerate(sizes) if size != 1]
                if [sizes[axis] for axis in axes] == [size for size, _ in apart]:
                    for axis, (_, is_apart) in zip(axes, apart, strict=True):
                        if is_apart:
                            joined[value][axis - 1] = False
    changed = True
    while changed:
        changed = False
        for generic in generics:
            changed |= _narrow(generic, joined)
    return joined


def _narrow(generic: _Loops, joined: dict[ir.Value, list[bool]]) -> bool:
    before = [list(generic.joined), *map(list, _flags_of(generic, joined))]
    for flags, exprs in zip(_flags_of(generic, joined), _result_maps(generic), strict=True):
        for loop in range(generic.count - 1):
            present = [loop in exprs, loop + 1 in exprs]
            if not any(present):
                continue
            at = exprs.index(loop) if all(present) else -1
            generic.joined[loop] &= all(present) and exprs[at + 1 : at + 2] == [loop + 1] and flags[at]
        for position in range(len(flags)):
            first, second = exprs[position], exprs[position + 1]
            flags[position] &= first is not None and second == first + 1 and generic.joined[first]
    return before != [generic.joined, *_flags_of(generic, joined)]


def _result_maps(generic: _Loops) -> list[list[int | None]]:
    tensors = [
        exprs
        for value, exprs in zip(generic.op.operands, generic.maps, strict=True)
        if isinstance(value.type, ir.ShapedType)
    ]
    return [*tensors, *generic.maps[len(generic.maps) - len(generic.op.results) :]]


def _flags_of(generic: _Loops, joined: dict[ir.Value, list[bool]]) -> list[list[bool]]:
    return [joined[value] for value in [*generic.op.operands, *generic.op.results] if value in joined]


def _joined(value: ir.Value, made: Mapping[ir.Value, Sequence[int]]) -> list[bool]:
    """Returns, for each dimension but the last, whether it may be joined with the next."""
    shape, is_transparent = list(ir.RankedTensorType(value.type).shape), _is_transparent(value)
    apart = breaks(shape, made.get(value) or strides_of(value))
    return [is_transparent and axis not in apart for axis in range(len(shape) - 1)]


def _is_transparent(value: ir.Value) -> bool:
    return _is_whole(value) and all(use.owner.operation.name in _READERS for use in value.uses)


def _is_whole(value: ir.Value) -> bool:
    """Returns whether a tensor is not a part of another one."""
    if isinstance(value.owner, ir.Block):
        return True
    op = value.owner.operation
    return _is_whole(op.operands[0]) if op.name in _RESHAPES else op.name in _MAKERS


def _groups(joined: Sequence[bool]) -> list[list[int]]:
    groups = [[0]]
    for position, is_joined in enumerate(joined, 1):
        if is_joined:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


def _rewrite(generic: _Loops, joined: dict[ir.Value, list[bool]], collapsed: dict[ir.Value, ir.Value]) -> bool:
    """Replaces an op by one over collapsed dimensions, leaving it unused; returns whether that was possible."""
    op, groups = generic.op, generic.groups()
    if generic.count == 0 or len(groups) == generic.count:
        return False
    number = {loop: index for index, group in enumerate(groups) for loop in group}
    replacements = [ir.AffineExpr.get_dim(number[loop]) for loop in range(generic.count)]
    with op.location, ir.InsertionPoint(op):
        operands = [_collapsed(value, joined, collapsed) for value in op.operands]
        maps = []
        for value, exprs in zip(op.operands, generic.exprs, strict=True):
            kept = _groups(joined[value]) if value in joined and exprs else [[axis] for axis in range(len(exprs))]
            heads = [group[0] for group in kept]
            results = [exprs[head].compose(ir.AffineMap.get(len(groups), 0, replacements)) for head in heads]
            maps.append(ir.AffineMapAttr.get(ir.AffineMap.get(len(groups), 0, results)))
        count = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
        iterators = ir.ArrayAttr.get([ir.Attribute.parse(generic.iterators[group[0]]) for group in groups])
        outs = operands[count:]
        new = linalg.GenericOp([out.type for out in outs], operands[:count], outs, ir.ArrayAttr.get(maps), iterators)
        block = op.regions[0].blocks[0]
        block.append_to(new.regions[0])
        for inner in block.operations:
            if inner.name == "linalg.index":
                dim = ir.IntegerAttr(inner.attributes["dim"]).value
                inner.operation.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number[dim])
        for old, result in zip(op.results, new.operation.results, strict=True):
            collapsed[old] = result
            shape = list(ir.RankedTensorType(old.type).shape)
            wide = result
            if result.type != old.type:
                wide = tensor.ExpandShapeOp(old.type, result, _groups(joined[old]), [], shape).result
                collapsed[wide] = result
            joined[wide] = joined[old]
            old.replace_all_uses_with(wide)
    return True


def _collapsed(value: ir.Value, joined: dict[ir.Value, list[bool]], collapsed: dict[ir.Value, ir.Value]) -> ir.Value:
    if value in collapsed or value not in joined or not any(joined[value]):
        return collapsed.get(value, value)
    groups, kind = _groups(joined[value]), ir.RankedTensorType(value.type)
    shape = [math.prod(kind.shape[axis] for axis in group) for group in groups]
    return tensor.CollapseShapeOp(ir.RankedTensorType.get(shape, kind.element_type), value, groups).result


def _plain(expr: ir.AffineExpr) -> int | None:
    simple = expr.maybe_downcast()
    return simple.position if isinstance(simple, ir.AffineDimExpr) else None


def _uses(expr: ir.AffineExpr, loop: int) -> bool:
    return re.search(rf"\bd{loop}\b", str(expr)) is not None
