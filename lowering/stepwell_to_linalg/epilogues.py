"""Kernels of one main op (the anchor) followed by elementwise ops of the same result shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir
from mlir.dialects import arith, func

from ...dialects.core import Op
from ...dialects.registry import view_of
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.types import array_of, dense, spec_of_type
from ...passes.infra.base import PassError
from ...passes.ir.values import shape_of
from ..builders.generics import constant
from ..builders.scalars import pack, signless, unpack
from .elementwise import scalar_body


@dataclass(frozen=True)
class Epilogue:
    """Elementwise ops of a kernel; must be made while values still have the dialect's element types.

    Attributes:
        anchor: the op that they follow.
        ops: the elementwise ops, in order; possibly none.
        result: the value that the kernel returns.
    """

    anchor: Op
    ops: Sequence[Op]
    result: ir.Value
    _bodies: list[Callable[..., ir.Value]] = field(init=False)
    _dtypes: dict[ir.Value, np.dtype] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bodies", [scalar_body(op) for op in self.ops])
        values = [*self.operands, self.result]
        object.__setattr__(self, "_dtypes", {value: spec_of_type(value.type).dtype for value in values})

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Registers `new` as the replacement of an operand."""
        if old in self._dtypes:
            self._dtypes[new] = self._dtypes[old]

    @property
    def operands(self) -> list[ir.Value]:
        """Values that the ops read besides each other's results and the anchor's, without repetition."""
        made = {self.anchor.operation.results[0]} | {op.operation.results[0] for op in self.ops}
        return list(dict.fromkeys(value for op in self.ops for value in op.operation.operands if value not in made))

    @property
    def tensors(self) -> list[ir.Value]:
        """Operands that are not an inline number."""
        return [value for value in self.operands if _splat(value) is None]

    def body(self, scalars: Sequence[ir.Value]) -> ir.Value:
        """Emits an element of the result from the anchor's element and those of the tensors."""
        known = {self.anchor.operation.results[0]: scalars[0], **dict(zip(self.tensors, scalars[1:], strict=True))}
        for other in self.operands:
            if (splat := _splat(other)) is not None:
                known[other] = constant(splat)
            known[other] = unpack(known[other], self._dtypes[other])
        for op, body in zip(self.ops, self._bodies, strict=True):
            with op.operation.location:
                operands = [known[operand] for operand in op.operation.operands]
                known[op.operation.results[0]] = body(*operands)
        return pack(known[self.result], self._dtypes[self.result])


def lower_around(
    kernel: func.FuncOp, is_anchor: Callable[[type[Op]], bool], lower: Callable[[Op, Epilogue, ir.Value], ir.Value]
) -> None:
    """Replaces the body of a kernel by the result of `lower` for its anchor, its epilogue and a new destination.

    Raises:
        PassError: the kernel is not one anchor followed by elementwise ops.
    """
    block = kernel.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1]
    views = [_view(op) for op in block.operations if op.operation != returned.operation]
    found = [view for view in views if is_anchor(type(view))]
    if len(found) != 1:
        raise PassError(f"a contraction kernel must have one contraction, but has {len(found)}", kernel.location)
    (anchor,) = found
    ops = [view for view in views if view is not anchor and not isinstance(view, ConstantOp)]
    result = returned.operands[0]
    for op in ops:
        if shape_of(op.operation.results[0]) != shape_of(result):
            message = f"'{op.OPERATION_NAME}' op changes the shape of the contraction before it"
            raise PassError(message, op.operation.location)
    # Bodies are chosen by the dialect's element types; the values that they read and write are signless.
    epilogue = Epilogue(anchor, ops, result)
    for view in views:
        if isinstance(view, ConstantOp):
            _keep_as_tensor(view, ops, epilogue)
    for value in [*block.arguments, anchor.operation.results[0]]:
        value.set_type(signless(value.type))
    destination = block.add_argument(signless(result.type), kernel.location)
    with ir.InsertionPoint(returned), anchor.operation.location:
        updated = lower(anchor, epilogue, destination)
    returned.operation.operands[0] = updated
    for view in reversed(views):
        view.operation.erase()
    arguments = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, [updated.type]))


def _keep_as_tensor(constant_op: ConstantOp, ops: Sequence[Op], epilogue: Epilogue) -> None:
    """Makes a constant of the product, or one of many elements, a tensor in memory; other splats become scalars."""
    op = constant_op.operation
    owners = {use.owner.operation for use in op.results[0].uses}
    if _splat(op.results[0]) is not None and owners <= {view.operation for view in ops}:
        return
    with op.location, ir.InsertionPoint(op):
        kept = arith.constant(signless(op.results[0].type), dense(_without_sign(constant_op.value)))
    epilogue.replace(op.results[0], kept)
    op.results[0].replace_all_uses_with(kept)


def _view(op: ir.OpView) -> Op:
    view = view_of(op)
    if view is None:
        raise PassError(f"'{op.operation.name}' op cannot be part of a contraction kernel", op.operation.location)
    return view


def _splat(value: ir.Value) -> ir.Attribute | None:
    """Returns the single element of an inline constant, or None for any other value."""
    if isinstance(value.owner, ir.Block) or value.owner.name != ConstantOp.OPERATION_NAME:
        return None
    attribute = ir.DenseElementsAttr(value.owner.attributes["value"])
    if not attribute.is_splat:
        return None
    return ir.DenseElementsAttr(dense(_without_sign(array_of(attribute)))).get_splat_value()


def _without_sign(array: np.ndarray) -> np.ndarray:
    """Returns unsigned integers, bools and all one-byte types as signed integers of the same bits."""
    if array.dtype.kind in "ub" or array.dtype.itemsize == 1:
        return np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").reshape(array.shape)
    return array
