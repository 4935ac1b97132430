"""Pull evaluator: emits code for single elements of pure tensor expressions at given indices.

    values = Values(arguments)
    values.element(%r, [i, j])      // %r = linalg.generic ... of linalg.generic ... of arguments

writes only the code that computes that element: arguments are loaded, bodies of linalg ops are copied, and reductions
become loops in the requesting thread. An emitter binds the values that it already has, such as an accumulator or a row
in registers, to their tensors. This fuses the ops before and after without further work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import vector

from ....passes.infra.base import PassError
from . import generics, movement
from .evaluator import Evaluator, Lanes
from .indices import Index, add
from .launch import Memory
from .views import memory_of

_Element = Callable[[Sequence[Index]], ir.Value]
_Rule = Callable[[Evaluator, ir.Operation, ir.Value, list[Index], int], Lanes]

_RULES: Mapping[str, _Rule] = {
    "linalg.fill": generics.fill,
    "linalg.generic": generics.generic,
    "tensor.collapse_shape": movement.collapse_shape,
    "tensor.concat": movement.concat,
    "tensor.expand_shape": movement.expand_shape,
    "tensor.extract_slice": movement.extract_slice,
    "tensor.from_elements": movement.from_elements,
    "tensor.insert_slice": movement.insert_slice,
    "tensor.pad": movement.pad,
    "tensor.splat": movement.splat,
}
PURE = frozenset({*_RULES, "arith.constant", "tensor.empty"})
"""The ops on tensors whose results can be computed element by element."""


class Values:
    """Computes elements of tensors at the insertion point.

    Code written for a tensor at some indices is reused where it dominates; `scope` delimits the reuse.
    """

    def __init__(self, arguments: Mapping[ir.Value, Memory], constant: Callable[[ir.Value], Memory]) -> None:
        """Creates an evaluator without bound tensors.

        Args:
            arguments: memory of the tensors that are in memory.
            constant: function that returns the memory of a dense constant.
        """
        self._memory, self._constant = dict(arguments), constant
        self._bound: dict[ir.Value, _Element] = {}
        self._scopes: list[dict[tuple, Lanes]] = [{}]

    def bind(self, tensor: ir.Value, element: _Element) -> None:
        """Makes `element` compute the elements of a tensor."""
        self._bound[tensor] = element
        for scope in self._scopes:  # cached elements may derive from the earlier definition
            scope.clear()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Prevents code written inside from being reused outside; for bodies of loops and branches."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def element(self, tensor: ir.Value, indices: Sequence[Index]) -> ir.Value:
        """Returns the element of a tensor at the given indices.

        Raises:
            PassError: an op makes the tensor whose elements cannot be computed individually; names the op.
        """
        return self.lanes(tensor, indices, 1)[0]

    def lanes(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """Returns `width` neighbours along the last dimension; the last index must be a multiple of `width`.

        Raises:
            PassError: as `element`.
        """
        key = (tensor, width, *indices)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        found = self._lanes(tensor, list(indices), width)
        self._scopes[-1][key] = found
        return found

    def note(self, tensor: ir.Value, indices: Sequence[Index], lanes: Lanes) -> None:
        """Caches neighbours that were computed together with those of another tensor."""
        self._scopes[-1][(tensor, len(lanes), *indices)] = lanes

    def one_by_one(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """Returns the same as `lanes`, computed one element at a time."""
        return [self.element(tensor, [*indices[:-1], add(indices[-1], lane)]) for lane in range(width)]

    def memory(self, tensor: ir.Value) -> Memory | None:
        """Returns the memory of a tensor that is in memory or a view of such a tensor, else None."""
        return memory_of(tensor, self._memory)

    def scalar(self, value: ir.Value) -> ir.Value:
        """Copies to the insertion point a scalar computation that is outside the bodies of linalg ops."""
        if isinstance(value.owner, ir.Block):
            raise PassError("a launch takes a scalar argument: expected tensors only", value.owner.owner.location)
        op = value.owner.operation
        if op.name == "tensor.extract":
            return self.element(op.operands[0], [self.scalar(index) for index in list(op.operands)[1:]])
        operands = [self.scalar(operand) for operand in op.operands]
        copied = op.clone()
        for position, operand in enumerate(operands):
            copied.operation.operands[position] = operand
        return copied.operation.results[list(op.results).index(value)]

    def _lanes(self, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
        if tensor in self._bound:
            element = self._bound[tensor]
            return [element([*indices[:-1], add(indices[-1], lane)] if indices else []) for lane in range(width)]
        memory = self.memory(tensor)
        if memory is not None:
            return load(memory, indices, width)
        if isinstance(tensor.owner, ir.Block):
            raise PassError("a tensor is not in memory", tensor.owner.owner.location)
        op = tensor.owner.operation
        if op.name == "arith.constant":
            return self._constant_lanes(tensor, op, indices, width)
        if op.name not in _RULES:
            raise PassError(
                f"'{op.name}' op makes a tensor whose elements cannot be computed individually", op.location
            )
        with op.location:
            return _RULES[op.name](self, op, tensor, indices, width)

    def _constant_lanes(self, tensor: ir.Value, op: ir.Operation, indices: list[Index], width: int) -> Lanes:
        contents = ir.DenseElementsAttr(op.attributes["value"])
        if contents.is_splat:
            kind, value = ir.RankedTensorType(tensor.type).element_type, contents.get_splat_value()
            return [ir.Operation.create("arith.constant", [kind], attributes={"value": value}).result] * width
        if tensor not in self._memory:
            self._memory[tensor] = self._constant(tensor)
        return load(self._memory[tensor], indices, width)


def load(memory: Memory, indices: Sequence[Index], width: int) -> Lanes:
    """Loads neighbours along the last dimension, by accesses as wide as the alignment permits."""
    most = min(width, memory.width())
    found: Lanes = []
    for first in range(0, width, most):
        place = [*indices[:-1], add(indices[-1], first)] if indices else []
        value = memory.load(place, most)
        found += [value] if most == 1 else [vector.extract(value, [], [lane]) for lane in range(most)]
    return found


def pack(lanes: Sequence[ir.Value]) -> ir.Value:
    """Returns the lanes as a vector, or a single lane as a scalar."""
    if len(lanes) == 1:
        return lanes[0]
    return vector.from_elements(ir.VectorType.get([len(lanes)], lanes[0].type), list(lanes))
