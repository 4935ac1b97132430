"""Gathers of elements that follow each other backwards become loads whose lanes are put in reverse order."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

_SUMS = {"arith.addi": 1, "arith.subi": -1}


@dataclass(frozen=True)
class _Lanes:
    """Indices of a vector's lanes: the first one, and the step from each to the next."""

    first: ir.Value
    step: int


def read_backwards(gather: ir.Operation) -> bool:
    """Replaces a gather of consecutive elements in reverse order; returns whether it is one.

        vector.gather %memory[%i, %j] [%last - %lane], true --> vector.shuffle (vector.load %memory[%i, ...]), reverse

    Gathers with a mask stay, as the lanes that it leaves out may lie outside of the memory.
    """
    view = gather.opview
    assert isinstance(view, vector.GatherOp)
    kind = ir.VectorType(view.result.type)
    if kind.rank != 1 or kind.element_type == ir.IntegerType.get_signless(1):
        return False  # a vector of bits is packed, unlike memory
    if not _is_contiguous(view.base.type) or not _is_all(view.mask):
        return False
    with gather.location, ir.InsertionPoint(gather):
        lanes = _lanes_of(view.indices)
        if lanes is None or lanes.step != -1:
            return False
        *outer, offset = view.offsets
        (count,) = kind.shape
        index = ir.IndexType.get()
        start = arith.subi(arith.addi(offset, lanes.first), arith.constant(index, count - 1))
        loaded = vector.load(kind, view.base, [*outer, start])
        view.result.replace_all_uses_with(vector.shuffle(loaded, loaded, list(range(count))[::-1]))
    gather.erase()
    return True


def _is_contiguous(memory: ir.Type) -> bool:
    if not isinstance(memory, ir.MemRefType):
        return False
    strides, _ = memory.get_strides_and_offset()
    return bool(strides) and strides[-1] == 1


def _is_all(mask: ir.Value) -> bool:
    """Returns whether a mask is true in each lane."""
    splat = _splat(mask)
    return splat is not None and bool(ir.BoolAttr(splat).value)


def _splat(value: ir.Value) -> ir.Attribute | None:
    """The element that all lanes of a constant have; None for other values."""
    if not isinstance(value.owner, ir.OpView | ir.Operation) or value.owner.name != "arith.constant":
        return None
    attribute = ir.DenseElementsAttr(value.owner.attributes["value"])
    return attribute.get_splat_value() if attribute.is_splat else None


def _lanes_of(value: ir.Value) -> _Lanes | None:
    """Describes lanes whose indices differ by the same known step; None for others."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    index = ir.IndexType.get()
    if owner.name == "vector.step":
        return _Lanes(arith.constant(index, 0), 1)
    if owner.name == "vector.broadcast":
        source = owner.operands[0]
        return _Lanes(source, 0) if source.type == index else None
    if owner.name == "arith.constant":
        splat = _splat(value)
        return None if splat is None else _Lanes(arith.constant(index, ir.IntegerAttr(splat).value), 0)
    if owner.name not in _SUMS:
        return None
    left, right = map(_lanes_of, owner.operands)
    if left is None or right is None:
        return None
    sign = _SUMS[owner.name]
    combine = arith.addi if sign > 0 else arith.subi
    return _Lanes(combine(left.first, right.first), left.step + sign * right.step)
