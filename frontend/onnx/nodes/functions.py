"""Operators that a model defines itself as functions of others: they are inlined at each use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from mlir import ir

from ....support.wording import quantity
from ...errors import ModelError, NodeError
from ..reading.model import Model, opsets
from ..reading.names import normal_domain
from .context import ImportContext
from .scope import Scope


@dataclass(frozen=True)
class OnnxFunction:
    """A function that a model defines.

    Attributes:
        key: its domain, name and overload.
        proto: its definition.
        versions: the version of each operator domain that its nodes use.
    """

    key: tuple[str, str, str]
    proto: onnx.FunctionProto
    versions: dict[str, int]

    def inline(
        self, importer: ImportContext, call: onnx.NodeProto, name: str, scope: Scope, inputs: list[ir.Value | None]
    ) -> list[ir.Value | None]:
        """Imports the function's nodes in place of a node that calls it; returns the outputs that the node names.

        Raises:
            NodeError: the function calls itself, or takes fewer inputs.
        """
        if self.key in scope.active:
            raise NodeError("calls the function that it is part of; recursion is not supported")
        if len(inputs) > len(self.proto.input):
            raise NodeError(f"takes {quantity(len(self.proto.input), 'input')}, but has {len(inputs)}")
        active = scope.active | {self.key}
        inner = Scope(versions=self.versions, prefix=f"{name}/", active=active, is_checked=scope.is_checked)
        for formal, value in zip(self.proto.input, inputs, strict=False):
            if value is not None:
                inner.define(formal, value)
        absent = set(self.proto.input) - set(inner.values)
        attributes = {default.name: default for default in self.proto.attribute_proto}
        attributes |= {attribute.name: attribute for attribute in call.attribute}
        importer.nodes(enumerate([_bound(node, attributes, absent) for node in self.proto.node]), inner)
        scope.guards.extend(inner.guards)
        wanted = zip(self.proto.output, call.output, strict=False)
        return [inner.lookup(output) if name else None for output, name in wanted]


class FunctionTable:
    """The functions of a model."""

    def __init__(self, model: Model) -> None:
        self._functions: dict[tuple[str, str, str], OnnxFunction] = {}
        for proto in model.proto.functions:
            key = (normal_domain(proto.domain), proto.name, proto.overload)
            if key in self._functions:
                raise ModelError(f"defines the function '{proto.name}' twice")
            self._functions[key] = OnnxFunction(key, proto, opsets(proto.opset_import, model.name))

    def get(self, node: onnx.NodeProto) -> OnnxFunction | None:
        """The function that a node calls, or None if the node is an operator."""
        return self._functions.get((normal_domain(node.domain), node.op_type, node.overload))


def _bound(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], absent: set[str]) -> onnx.NodeProto:
    """A function's node with attribute references replaced by the call's attributes."""
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:], bound.input[:]
    bound.input.extend("" if name in absent else name for name in node.input)
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            _bind_inner(bound.attribute.add(), attribute, attributes, absent)
        elif attribute.ref_attr_name in attributes:
            copy = bound.attribute.add()
            copy.CopyFrom(attributes[attribute.ref_attr_name])
            copy.name = attribute.name
    return bound


def _bind_inner(
    copy: onnx.AttributeProto,
    attribute: onnx.AttributeProto,
    attributes: Mapping[str, onnx.AttributeProto],
    absent: set[str],
) -> None:
    copy.CopyFrom(attribute)
    if attribute.type != onnx.AttributeProto.GRAPH:
        return
    del copy.g.node[:]
    copy.g.node.extend(_bound(node, attributes, absent) for node in attribute.g.node)
