"""States of ops at symbolic sizes, recorded before their module gets the shapes at the upper bounds of the sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ...dialects import discardable
from ...dialects.dims import Dim, DimShape, Symbolic, is_known
from ...dialects.op import Op
from ...dialects.registry import view_of
from ...dialects.stepwell.shape import SizesOp
from ...dialects.types import shape_of_type
from ...sizes.substitution import names_of
from ..ir.functions import body_of, dictionaries, update_type
from ..ir.rewriting import walk
from ..ir.values import is_tensor
from .errors import RangesError


@dataclass(frozen=True)
class OpState:
    """An op at symbolic sizes.

    Attributes:
        attributes: its attributes by name, as Python values.
        shapes: the shapes of its results; () for one that is no tensor.
    """

    attributes: Mapping[str, Any]
    shapes: tuple[DimShape, ...]

    @property
    def sizes(self) -> set[str]:
        """The names of the sizes that its attributes and the shapes of its results depend on."""
        entries = [entry for value in (*self.attributes.values(), *self.shapes) for entry in _entries(value)]
        return {name for entry in entries if isinstance(entry, Symbolic) for name in names_of(entry)}

    @property
    def varying(self) -> set[str]:
        """The names of the attributes that depend on sizes."""
        return {name for name, value in self.attributes.items() if any(map(_is_symbolic, _entries(value)))}


def record_states(main: ir.Operation, convert: Callable[[Dim], Dim]) -> list[OpState]:
    """Returns the states of the ops inside a function, in program order, with all dimensions converted.

    Raises:
        RangesError: a dimension or an attribute is unknown; names the op.
    """
    return [_state(op, convert) for op in walk(main)]


def _state(op: ir.Operation, convert: Callable[[Dim], Dim]) -> OpState:
    shapes = []
    for value in op.results:
        shape = shape_of_type(value.type) if is_tensor(value) else ()
        if not all(map(is_known, shape)):
            raise RangesError(f"'{op.name}' op: the size of its result does not follow from the inputs", op.location)
        shapes.append(tuple(map(convert, shape)))
    view = view_of(op)
    values = {} if view is None else view.attribute_values()
    unknown = [name for name, value in values.items() if not all(map(_is_known, _entries(value)))]
    if unknown:
        reason = f"its attribute '{unknown[0]}' does not follow from the inputs at all sizes"
        raise RangesError(f"'{op.name}' op: {reason}", op.location)
    attributes = {name: _converted(value, convert) for name, value in values.items()}
    return OpState(attributes, tuple(shapes))


def set_sizes(main: ir.Operation, number: Callable[[Dim], int]) -> None:
    """Replaces all dimensions in the types and the attributes of a function by the numbers that `number` returns."""
    for value in _values(main):
        if is_tensor(value):
            kind = ir.RankedTensorType(value.type)
            if kind.encoding is not None or not kind.has_static_shape:
                value.set_type(ir.RankedTensorType.get(list(map(number, shape_of_type(kind))), kind.element_type))
    for op in walk(main):
        view = view_of(op)
        if view is not None and op.name != SizesOp.OPERATION_NAME:
            _set_attributes(op, view, number)
    update_type(main)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for key, kinds in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        main.attributes[key] = ir.ArrayAttr.get(
            [_with_dims(attributes, kind) for attributes, kind in zip(dictionaries(main, key), kinds, strict=True)]
        )


def _with_dims(attributes: ir.DictAttr, kind: ir.Type) -> ir.DictAttr:
    """The attributes of an argument or result of @main with the dimensions of its type."""
    if not discardable.DIMS.is_on(attributes):
        return attributes
    named = {item.name: item.attr for item in attributes}
    return ir.DictAttr.get(named | discardable.DIMS.entry(tuple(ir.RankedTensorType(kind).shape)))


def _set_attributes(op: ir.Operation, view: Op, number: Callable[[Dim], int]) -> None:
    for field in view.attribute_fields():
        if field.name not in op.attributes:
            continue
        value = field.read(op.attributes[field.name])
        if any(map(_is_symbolic, _entries(value))):
            op.attributes[field.name] = field.write(
                tuple(map(number, value)) if isinstance(value, tuple) else number(value)
            )


def _values(main: ir.Operation) -> Iterator[ir.Value]:
    yield from body_of(main).arguments
    for op in walk(main):
        yield from op.results
        for region in op.regions:
            for block in region:
                yield from block.arguments


def _converted(value: Any, convert: Callable[[Dim], Dim]) -> Any:
    if isinstance(value, Symbolic):
        return convert(value)
    return tuple(map(convert, value)) if isinstance(value, tuple) else value


def _entries(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_known(entry: Any) -> bool:
    return not _is_symbolic(entry) or is_known(entry)


def _is_symbolic(entry: Any) -> bool:
    return isinstance(entry, Symbolic)
