"""Isolates one kernel as a program: the same code, with operands laid out in memory as in the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func, tensor

from ...dialects import discardable, interpreter
from ...dialects.defined import DEFINED
from ...dialects.dims import numbers
from ...dialects.registry import OPS, view_of
from ...dialects.types import spec_of_type
from ...passes.ir.rewriting import walk
from ...passes.kernel.views import EXTRACT, Box, box_of, insertion_of, row_index


@dataclass(frozen=True)
class _Root:
    """The tensor that an operand of a call is a part of.

    Attributes:
        kind: the type of the whole tensor.
        parts: the boxes that lead to the operand, each with the type that it cuts out.
    """

    kind: ir.Type
    parts: tuple[tuple[Box, ir.Type], ...] = ()

    def whole(self, part: np.ndarray) -> np.ndarray:
        """Returns an array that holds the operand at its position, surrounded by values that no kernel may read."""
        kinds = [self.kind, *(kind for _, kind in self.parts)]
        for (box, _), outer in zip(reversed(self.parts), reversed(kinds[:-1]), strict=True):
            spec = spec_of_type(outer)
            around = np.nan if spec.dtype.kind == "f" else 0
            array = np.full(numbers(spec.shape), around, spec.dtype)
            array[_slices(box)] = part.reshape(array[_slices(box)].shape)
            part = array
        return part


@dataclass
class IsolatedCall:
    """A call of a kernel as a module with its own @main.

    Attributes:
        module: the kernel and @main, of stepwell ops.
        roots: the tensor behind each input of @main.
        box: the part of the output that the kernel writes; None if it writes all of it.
        shape: the shape of what it writes.
    """

    module: ir.Module
    roots: list[_Root]
    box: Box | None
    shape: tuple[int, ...]

    @property
    def kernel(self) -> ir.Operation:
        """The function of the kernel."""
        return next(op.operation for op in self.module.body.operations if discardable.KERNEL.is_on(op))

    def expected(self, operands: Sequence[np.ndarray], around: interpreter.Around | None = None) -> np.ndarray:
        """Computes the kernel's result with the interpreter; `around` wraps every operation."""
        (whole,) = interpreter.evaluate(self.module, "main", self.inputs(operands), {}, around)
        return self.result(whole)

    def inputs(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the inputs of @main for the operands of the call."""
        return [root.whole(np.asarray(array)) for root, array in zip(self.roots, operands, strict=True)]

    def live(self, operands: Sequence[np.ndarray]) -> tuple[slice, ...]:
        """Returns the part of the result that holds data: all of it, unless the model serves a range of sizes."""
        place = discardable.TABLE_ARGUMENT.read(self.kernel)
        if place is None:
            return ()
        table, entries = np.asarray(operands[place]), discardable.EXTENTS.read(self.kernel, ())
        return tuple(slice(None) if entry < 0 else slice(int(table[entry])) for entry in entries)

    def result(self, output: np.ndarray) -> np.ndarray:
        """Returns the kernel's part of @main's output."""
        return output if self.box is None else output[_slices(self.box)].reshape(self.shape)

    def defined(self, operands: Sequence[np.ndarray]) -> np.ndarray | bool:
        """Returns a mask of the elements of the result that do not depend on what the kernel's ops leave undefined."""
        if not any(op.name in OPS and DEFINED.of(OPS[op.name]) for op in walk(self.kernel)):
            return True
        zeros, ones = (self.expected(operands, _undefined_as(value)) for value in (0, 1))
        return zeros == ones if zeros.dtype.kind in "biu" else (zeros == ones) | (np.isnan(zeros) & np.isnan(ones))


def isolate(call: ir.Operation, kernel: ir.Operation) -> IsolatedCall:
    """Creates a program of one call of `kernel`."""
    roots = [_root_of(operand) for operand in call.operands]
    (result,) = call.results
    insertion = insertion_of(result)
    is_part = insertion is not None and row_index(insertion) is None
    output = insertion.operands[1].type if insertion is not None and is_part else result.type
    with call.location:
        module = ir.Module.create()
        kernel.clone(ip=ir.InsertionPoint(module.body))
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([root.kind for root in roots], [output]))
        with ir.InsertionPoint(main.add_entry_block()):
            kind = ir.RankedTensorType(output)
            # The destination must precede the kernel's call.
            whole = tensor.EmptyOp(list(kind.shape), kind.element_type).result if is_part else None
            operands = [_emit(root, argument) for root, argument in zip(roots, main.arguments, strict=True)]
            made = func.CallOp([result.type], ir.FlatSymbolRefAttr(call.attributes["callee"]), operands)
            discardable.OPS.copy(call, made)
            value = made.results[0]
            if insertion is not None and is_part:
                value = tensor.InsertSliceOp(value, whole, [], [], [], *box_of(insertion)).result
            func.ReturnOp([value])
    shape = tuple(ir.RankedTensorType(result.type).shape)
    box = box_of(insertion) if insertion is not None and is_part else None
    return IsolatedCall(module, roots, box, shape)


def _undefined_as(value: int) -> interpreter.Around:
    """Gives the elements that ops leave undefined a value."""

    def around(operation: ir.Operation, operands: Sequence[Any], compute: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        results = compute()
        view = view_of(operation)
        rule = None if view is None else DEFINED.of(type(view))
        if view is None or rule is None:
            return results
        return [np.where(rule(view, operands, array), array, array.dtype.type(value)) for array in results]

    return around


def _root_of(value: ir.Value) -> _Root:
    insertion = insertion_of(value)
    if insertion is not None and row_index(insertion) is None:
        return _Root(insertion.operands[1].type, ((box_of(insertion), value.type),))
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != EXTRACT or row_index(owner) is not None:
        return _Root(value.type)
    outer = _root_of(owner.operands[0])
    return _Root(outer.kind, (*outer.parts, (box_of(owner), value.type)))


def _emit(root: _Root, value: ir.Value) -> ir.Value:
    for box, kind in root.parts:
        value = tensor.ExtractSliceOp(kind, value, [], [], [], *box).result
    return value


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, start + size * step, step) for start, size, step in zip(*box, strict=True))
