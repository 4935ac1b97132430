"""From a kernel of linalg ops to the contraction that the unit computes in its place.

Every index of a contraction or convolution is a sum of loop variables with factors, and so is its place in memory. A
loop that only the left operand depends on runs over rows, one of the right operand over columns, one of both over a
batch; reductions run over the depth. An image's window needs no copy: its rows and columns are loops like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from stepwell.dialects import discardable
from stepwell.lowering.builders.strides import strides_of
from stepwell.passes.ir.functions import body_of

from .blocking import CubeContraction, is_worthwhile
from .isa import ELEMENTS, Counter, MemoryView

_MOVEMENT = {
    *("tensor.collapse_shape", "tensor.expand_shape", "tensor.empty", "arith.constant", "linalg.fill", "func.return"),
    "linalg.generic",
}
_FLOAT = ["arith.extf", "arith.extf", "arith.mulf", "arith.addf", "linalg.yield"]
_BYTES = ["arith.muli", "arith.addi", "linalg.yield"]
_NARROW = (["linalg.yield"], ["arith.truncf", "linalg.yield"])
_SIGNED = {"arith.extsi": "i8", "arith.extui": "u8"}


class NotForTheUnit(Exception):
    """A kernel stays on the host, for the reason in the message."""


@dataclass(frozen=True)
class _Operand:
    """A tensor that a contraction accesses.

    Attributes:
        value: the tensor in the kernel.
        element: its element type, one of `ELEMENTS`.
        steps: distance in elements from one iteration of each loop to the next.
    """

    value: ir.Value
    element: str
    steps: Sequence[int]


def contraction_of(kernel: ir.Operation) -> CubeContraction:
    """Returns the contraction that a kernel consists of.

    Raises:
        NotForTheUnit: the kernel is something else, or too small.
    """
    operations = [op.operation for op in body_of(kernel).operations]
    product, result = _parts(operations)
    other = next((op.name for op in operations if op.name not in _MOVEMENT), None)
    if other is not None:
        raise NotForTheUnit(f"the unit has no instruction for '{other}'")
    elements = _elements(product)
    kinds = (*elements, _name_of(result))
    maps = [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(product.attributes["indexing_maps"])]
    values = [*list(product.operands)[:2], result]
    operands = [_operand(value, kind, item) for value, kind, item in zip(values, kinds, maps, strict=True)]
    return _contraction(kernel, operands, _extents(values, maps), _reduced(product))


def _parts(operations: Sequence[ir.Operation]) -> tuple[ir.Operation, ir.Value]:
    """Returns the op that multiplies and adds, and the tensor that receives its sums, possibly rounded."""
    generics = [op for op in operations if op.name == "linalg.generic"]
    if not generics or not discardable.CONTRACTION.is_on(generics[0]):
        raise NotForTheUnit("it is no contraction")
    product, *rounding = generics
    if len(rounding) > 1 or not all(map(_only_rounds, rounding)):
        raise NotForTheUnit("it is more than one contraction")
    start = product.operands[2].owner
    if isinstance(start, ir.Block) or start.name != "linalg.fill" or not _is_zero(start.operands[0]):
        raise NotForTheUnit("its sums do not start at zero")
    return product, rounding[0].operands[1] if rounding else start.operands[1]


def _only_rounds(generic: ir.Operation) -> bool:
    """Returns whether an op stores its operand element by element, possibly rounded."""
    maps = (ir.AffineMapAttr(item).value for item in ir.ArrayAttr(generic.attributes["indexing_maps"]))
    return _names_in(generic) in _NARROW and [*maps] == [ir.AffineMap.get_identity(_rank(generic))] * 2


def _rank(generic: ir.Operation) -> int:
    return len(ir.ArrayAttr(generic.attributes["iterator_types"]))


def _is_zero(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    number = owner.attributes["value"]
    return isinstance(number, ir.IntegerAttr | ir.FloatAttr) and number.value == 0


def _elements(product: ir.Operation) -> tuple[str, str]:
    """Returns the element types that a contraction multiplies."""
    names = _names_in(product)
    if names == _FLOAT and all(_name_of(value) == "f16" for value in list(product.operands)[:2]):
        return "f16", "f16"
    if names[2:] == _BYTES and all(name in _SIGNED for name in names[:2]):
        return _SIGNED[names[0]], _SIGNED[names[1]]
    raise NotForTheUnit("the unit multiplies f16 and bytes")


def _names_in(generic: ir.Operation) -> list[str]:
    """Returns the names of the ops that compute one element."""
    return [op.operation.name for op in body_of(generic).operations]


def _name_of(value: ir.Value) -> str:
    name = str(ir.RankedTensorType(value.type).element_type)
    if name not in ELEMENTS:
        raise NotForTheUnit(f"the unit moves no elements of type {name}")
    return name


def _operand(value: ir.Value, element: str, indices: ir.AffineMap) -> _Operand:
    steps = [0] * indices.n_dims
    for index, stride in zip(indices.results, strides_of(value), strict=True):
        for loop, factor in _factors(index):
            steps[loop] += factor * stride
    return _Operand(value, element, steps)


def _factors(index: ir.AffineExpr) -> list[tuple[int, int]]:
    """Returns the loop variables in an index, each with its factor."""
    match index.maybe_downcast():
        case ir.AffineDimExpr(position=position):
            return [(position, 1)]
        case ir.AffineAddExpr(lhs=left, rhs=right):
            return _factors(left) + _factors(right)
        case ir.AffineMulExpr(lhs=left, rhs=right):
            factor = ir.AffineConstantExpr(right).value
            return [(loop, factor * inner) for loop, inner in _factors(left)]
        case ir.AffineConstantExpr(value=0):
            return []
    raise NotForTheUnit(f"the index {index} is not a sum of loop variables")


def _extents(values: Sequence[ir.Value], maps: Sequence[ir.AffineMap]) -> list[int]:
    """Returns the number of iterations of each loop, from a tensor that it indexes alone."""
    extents = [0] * maps[0].n_dims
    for value, indices in zip(values, maps, strict=True):
        for index, size in zip(indices.results, ir.RankedTensorType(value.type).shape, strict=True):
            if isinstance(index.maybe_downcast(), ir.AffineDimExpr):
                extents[ir.AffineDimExpr(index).position] = size
    if 0 in extents:
        raise NotForTheUnit("it is empty, or no tensor shows the extent of a loop")
    return extents


def _reduced(product: ir.Operation) -> list[bool]:
    kinds = ir.ArrayAttr(product.attributes["iterator_types"])
    return ["reduction" in str(kind) for kind in kinds]


def _contraction(
    kernel: ir.Operation, operands: Sequence[_Operand], extents: Sequence[int], reduced: Sequence[bool]
) -> CubeContraction:
    left, right, result = operands
    loops = [loop for loop, extent in enumerate(extents) if extent > 1]
    depth = [loop for loop in loops if reduced[loop]]
    parallel = [loop for loop in loops if not reduced[loop]]
    batch = [loop for loop in parallel if left.steps[loop] and right.steps[loop]]
    columns = [loop for loop in parallel if right.steps[loop] and loop not in batch]
    rows = [loop for loop in parallel if loop not in (*batch, *columns)]

    def view(operand: _Operand, down: Iterable[int], across: Iterable[int]) -> MemoryView:
        counters = (_counter([(extents[loop], operand.steps[loop]) for loop in part]) for part in (down, across))
        return MemoryView(_argument(operand.value), operand.element, 0, *counters)

    found = CubeContraction(
        tuple(_argument_bytes(argument) for argument in body_of(kernel).arguments),
        view(left, [*batch, *rows], depth),
        view(right, [*batch, *depth], columns),
        view(result, [*batch, *rows], columns),
        _counter([(extents[loop], 0) for loop in batch]).size,
    )
    if not is_worthwhile(found.m, found.k, found.n):
        raise NotForTheUnit(f"{found.m}x{found.k}x{found.n} would be mostly padding")
    return found


def _counter(loops: Iterable[tuple[int, int]]) -> Counter:
    """Returns a counter with as few loops as possible."""
    merged: list[tuple[int, int]] = []
    for extent, stride in loops:
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return Counter(tuple(merged))


def _argument(value: ir.Value) -> int:
    """Returns the number of the kernel's argument that a tensor is a reshaped view of."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in ("tensor.collapse_shape", "tensor.expand_shape"):
            raise NotForTheUnit(f"an operand is the result of '{value.owner.name}'")
        value = value.owner.operands[0]
    return ir.BlockArgument(value).arg_number


def _argument_bytes(argument: ir.Value) -> int:
    """Returns how many bytes from its first element an argument extends."""
    kind = ir.RankedTensorType(argument.type)
    last = sum((extent - 1) * stride for extent, stride in zip(kind.shape, strides_of(argument), strict=True))
    return (last + 1) * _itemsize(kind.element_type)


def _itemsize(element: ir.Type) -> int:
    if not isinstance(element, ir.IntegerType | ir.FloatType) or element.width % 8:
        raise NotForTheUnit(f"the unit moves no elements of type {element}")
    return element.width // 8
