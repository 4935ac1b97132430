"""A node as handlers receive it: inputs and attributes checked, defaults filled in, constants looked up."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
from mlir import ir

from ....dialects.core import spec_of
from ....dialects.dims import Dim, is_known
from ....dialects.stepwell.constant import ConstantOp
from ....support.wording import quantity
from ...build import MAX_TABLE
from ...errors import AttributeFault, NeedsShapes, NodeError, UnsupportedError
from ..reading.model import element_dtype
from ..reading.names import normal_domain
from ..reading.weights import tensor_array
from .context import ImportContext
from .lists import ValueList
from .registry import OnnxHandler, schema_of
from .scope import Scope

_KINDS = onnx.AttributeProto.AttributeType
_ONNX_TYPES: dict[str, str] = {
    "float32": "tensor(float)",
    "float64": "tensor(double)",
    **{name: f"tensor({name})" for name in ("float16", "bfloat16", "bool")},
    **{f"{sign}int{bits}": f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float8_{kind}": f"tensor(float8{kind})" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    "float8_e8m0fnu": "tensor(float8e8m0)",
    "float4_e2m1fn": "tensor(float4e2m1)",
}


class Node:
    """One node of a model.

    Attributes:
        name: its name, or its operator and position if it has none.
        op_type: the operator's name.
        opset: the version of the operator's domain.
        importer: the current import.
        scope: the names that are visible at the node.
    """

    def __init__(self, proto: onnx.NodeProto, name: str, opset: int, importer: ImportContext, scope: Scope) -> None:
        self.name, self.op_type, self.opset = name, proto.op_type, opset
        self.importer, self.scope = importer, scope
        self.outputs = tuple(proto.output)
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._read: set[str] = set()
        self._is_standard = normal_domain(proto.domain) == "" and schema_of(proto.op_type, opset) is not None
        self._declared = _declared_attributes(proto.op_type, opset) if self._is_standard else {}
        if self._is_standard:
            self._check_attributes()

    def _check_attributes(self) -> None:
        for name, attribute in self._attributes.items():
            if name not in self._declared:
                raise NodeError(f"has the attribute '{name}', which {self.op_type} does not have in opset {self.opset}")
            kind = self._declared[name][0]
            if attribute.type != kind:
                raise AttributeFault(
                    f"attribute '{name}' must be of type {_KINDS.Name(kind)}, but is {_KINDS.Name(attribute.type)}"
                )
        for name, (_, _, is_required) in self._declared.items():
            if is_required and name not in self._attributes:
                raise AttributeFault(f"attribute '{name}' is missing")

    def as_onnx(self, op_type: str, opset: int, own: Sequence[str] = ()) -> Node:
        """The node as one of ONNX's own operator, with all its attributes except those in `own`."""
        kept = [attribute for name, attribute in self._attributes.items() if name not in own]
        self._read.update(attribute.name for attribute in kept)
        proto = onnx.NodeProto(op_type=op_type, output=self.outputs, attribute=kept)
        return Node(proto, self.name, opset, self.importer, self.scope)

    def ignore(self, *names: str) -> None:
        """Marks attributes that the handler may ignore: they concern training, or repeat information from shapes."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """Checks that the handler has read every attribute that differs from its default.

        Raises:
            UnsupportedError: it has not read one, so that its meaning would be lost.
        """
        for name, attribute in self._attributes.items():
            if name in self._read:
                continue
            value = self._python(attribute)
            # The defaults of operators outside ONNX are not known, but are mostly zero or empty.
            is_default = value == self._declared[name][1] if self._is_standard else _is_nothing(value)
            if not is_default:
                raise UnsupportedError(f"attribute '{name}' is not supported")

    def check_inputs(self, handler: OnnxHandler, inputs: Sequence[ir.Value | None]) -> None:
        """Checks the number and element types of the inputs against the operator's declaration.

        Raises:
            NodeError: they do not match it.
        """
        formals = _formal_inputs(self.op_type, self.opset) if self._is_standard else _handler_inputs(handler)
        if not formals.smallest <= len(inputs) <= formals.largest:
            least = "" if formals.smallest == formals.largest else f"{formals.smallest} to "
            raise NodeError(f"takes {least}{quantity(formals.largest, 'input')}, but has {len(inputs)}")
        bound: dict[str, str] = {}
        for position, value in enumerate(inputs):
            if value is None and min(position, formals.last) in formals.required:
                raise NodeError(f"input {position} is missing")
            if value is not None and not isinstance(value, ValueList) and formals.types:
                _check_type(spec_of(value).dtype, formals.types[min(position, len(formals.types) - 1)], bound)

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value, the operator's default for it, or `default`.

        Integers, floats and strings are Python's, lists are tuples, tensors are arrays, subgraphs are protobufs.
        """
        self._read.add(name)
        if name in self._attributes:
            return self._python(self._attributes[name])
        declared = self._declared.get(name)
        return default if declared is None or declared[1] is None else declared[1]

    def _python(self, attribute: onnx.AttributeProto) -> Any:
        if attribute.type == onnx.AttributeProto.TENSOR:
            return tensor_array(attribute.t, self.importer.folder)
        return _plain(attribute)

    def dtype(self, name: str) -> np.dtype | None:
        """The numpy dtype that an attribute such as `to` names; None if it is absent."""
        kind = self.attribute(name)
        return None if kind is None else element_dtype(kind, f"attribute '{name}'")

    def known(self, value: ir.Value | None) -> np.ndarray | None:
        """The contents of a value if it is a constant or a weight, else None."""
        if value is None:
            return None
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if owner.name == "stepwell.parameter":
            return self.importer.parameters[ir.StringAttr(owner.attributes["name"]).value]
        return spec_of(value).value

    def table(self, name: str, array: np.ndarray) -> ir.Value:
        """A table computed from sizes, as a literal, unlike a stored tensor.

        Tables of more than a few elements become parameters later, with other large constants
        (`stepwell-hoist-parameters`).
        """
        if array.size > MAX_TABLE:
            return self.importer.weight(f"{self.name}.{name}", array)
        return ConstantOp(value=array).operation.result

    def constant(self, value: ir.Value, what: str) -> np.ndarray:
        """The contents of an input that must be known during the import.

        Raises:
            NeedsShapes: they are not known.
        """
        contents = self.known(value)
        if contents is None:
            raise NeedsShapes(f"input '{what}' must be a constant, or computed from the shapes of the inputs", value)
        return contents

    def integers(self, value: ir.Value, what: str) -> tuple[Any, ...]:
        """The contents of a list of integers, which may be expressions over sizes, as for `constant`."""
        symbols = spec_of(value).symbols
        if symbols is not None:
            return tuple(symbols.flat)
        return tuple(int(item) for item in self.constant(value, what).reshape(-1))

    def static(self, dims: Sequence[Dim], what: str) -> tuple[Any, ...]:
        """Returns dimensions that must be numbers or expressions over sizes.

        Raises:
            NeedsShapes: one is neither.
        """
        if not all(map(is_known, dims)):
            raise NeedsShapes(f"{what} must be known")
        return tuple(dims)


def _is_nothing(value: Any) -> bool:
    return isinstance(value, int | float | str | tuple) and not value


def _plain(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(item.decode("utf-8", "replace") for item in value)
    return value


@functools.cache
def _declared_attributes(op_type: str, opset: int) -> dict[str, tuple[int, Any, bool]]:
    """Type, default (None if there is none) and whether it is required, for each attribute of the operator."""
    schema = schema_of(op_type, opset)
    if schema is None:
        return {}
    return {
        name: (
            cast(Any, declared.type).value,
            _plain(declared.default_value) if declared.default_value.type else None,
            declared.required,
        )
        for name, declared in schema.attributes.items()
    }


@dataclass(frozen=True)
class _Formals:
    """Number and kinds of an operator's inputs: name, allowed types and type variable of each; the last one repeats."""

    smallest: int
    largest: int
    required: frozenset[int]
    types: tuple[tuple[str, frozenset[str], str], ...]

    @property
    def last(self) -> int:
        """The position from which on the last declaration holds for all inputs."""
        return len(self.types) - 1 if self.types else self.largest


@functools.cache
def _formal_inputs(op_type: str, opset: int) -> _Formals:
    """The inputs that ONNX declares."""
    schema = schema_of(op_type, opset)
    assert schema is not None, "only declared operators have handlers"
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    types = tuple(
        (
            formal.name,
            frozenset(formal.types),
            formal.type_str if formal.is_homogeneous and formal.type_str in variables else "",
        )
        for formal in schema.inputs
    )
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    required = frozenset(index for index, formal in enumerate(schema.inputs) if formal.option != optional)
    return _Formals(schema.min_input, schema.max_input, required, types)


@functools.cache
def _handler_inputs(handler: OnnxHandler) -> _Formals:
    """The inputs that the handler takes, for an operator outside ONNX."""
    formals = list(inspect.signature(handler).parameters.values())[1:]
    variadic = [formal for formal in formals if formal.kind is inspect.Parameter.VAR_POSITIONAL]
    required = sum(formal.default is inspect.Parameter.empty for formal in formals) - len(variadic)
    needed = frozenset(index for index, formal in enumerate(formals[:required]) if "None" not in str(formal.annotation))
    return _Formals(required, sys.maxsize if variadic else len(formals), needed, ())


def _check_type(dtype: np.dtype, formal: tuple[str, frozenset[str], str], bound: dict[str, str]) -> None:
    """Checks an input's type; all inputs of one type variable must have the same type, recorded in `bound`."""
    name, allowed, variable = formal
    kind = _ONNX_TYPES[dtype.name]
    if kind not in allowed:
        raise NodeError(f"input '{name}' cannot be a {kind}")
    if variable and bound.setdefault(variable, kind) != kind:
        raise NodeError(f"input '{name}' is a {kind}, but must be a {bound[variable]} like the one before it")
