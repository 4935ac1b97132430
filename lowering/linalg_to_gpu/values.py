"""The pull evaluator: the scalar of any pure tensor expression at given indices, wherever it is asked for.

    values = Values(arguments)
    values.element(%r, [i, j])      // %r = linalg.generic ... of linalg.generic ... of arguments

writes the code that computes that element, and nothing else: arguments are loaded, bodies of linalg ops are copied,
reductions become loops in the thread that asks. What an emitter has at hand, an accumulator or a row in registers, it
binds to the tensor that it is an element of; so what comes before and after fuses by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import vector

from ...passes.base import PassError
from . import generics, movement
from .indices import Index, add
from .launch import Memory
from .views import memory_of

Element = Callable[[Sequence[Index]], ir.Value]
Lanes = list[ir.Value]
Rule = Callable[["Values", ir.Operation, ir.Value, list[Index], int], Lanes]

_RULES: Mapping[str, Rule] = {
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
"""The ops on tensors of whose results an element can be computed."""


class Values:
    """Computes elements of tensors where the insertion point is.

    Code that was written once for a tensor at some indices is used again as long as it dominates: `scope` bounds that.
    """

    def __init__(self, arguments: Mapping[ir.Value, Memory], constant: Callable[[ir.Value], Memory]) -> None:
        """Starts without anything bound.

        Args:
            arguments: where the tensors are that are in memory.
            constant: where a dense constant is in memory.
        """
        self._memory, self._constant = dict(arguments), constant
        self._bound: dict[ir.Value, Element] = {}
        self._scopes: list[dict[tuple, Lanes]] = [{}]

    def bind(self, tensor: ir.Value, element: Element) -> None:
        """Makes `element` the way to the elements of a tensor."""
        self._bound[tensor] = element
        for scope in self._scopes:  # what was computed of something else is of no use
            scope.clear()

    def bind_memory(self, tensor: ir.Value, memory: Memory) -> None:
        """Says that a tensor is in memory, which may be shared memory."""
        self._memory[tensor] = memory

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is written inside is not used again outside: for bodies of loops and branches."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def element(self, tensor: ir.Value, indices: Sequence[Index]) -> ir.Value:
        """The element of a tensor at some indices.

        Raises:
            PassError: an op makes the tensor that has no elements by themselves; names it.
        """
        return self.lanes(tensor, indices, 1)[0]

    def lanes(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """`width` neighbours along the last dimension, from one at indices of which the last is a multiple of `width`.

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
        """Keeps neighbours that were computed together with those of another tensor."""
        self._scopes[-1][(tensor, len(lanes), *indices)] = lanes

    def one_by_one(self, tensor: ir.Value, indices: Sequence[Index], width: int) -> Lanes:
        """`lanes`, each by itself."""
        return [self.element(tensor, [*indices[:-1], add(indices[-1], lane)]) for lane in range(width)]

    def memory(self, tensor: ir.Value) -> Memory | None:
        """Where a tensor is in memory, by itself or as a part or another shape of one that is."""
        return memory_of(tensor, self._memory)

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar of the launch's function that is no element of a tensor's body, computed here."""
        if isinstance(value.owner, ir.Block):
            raise PassError("a launch takes a scalar", value.owner.owner.location)
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
                f"'{op.name}' op makes a tensor whose elements cannot be computed by themselves", op.location
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
    """Neighbours along the last dimension, by accesses that are as wide as alignment lets them be."""
    most = min(width, memory.width())
    found: Lanes = []
    for first in range(0, width, most):
        place = [*indices[:-1], add(indices[-1], first)] if indices else []
        value = memory.load(place, most)
        found += [value] if most == 1 else [vector.extract(value, [], [lane]) for lane in range(most)]
    return found


def pack(lanes: Sequence[ir.Value]) -> ir.Value:
    """The lanes as a vector; one alone as it is."""
    if len(lanes) == 1:
        return lanes[0]
    return vector.from_elements(ir.VectorType.get([len(lanes)], lanes[0].type), list(lanes))
