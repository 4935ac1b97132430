"""Operators that ONNX itself defines as functions of others: they are inlined if they have no importer of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from mlir import ir
from onnx import helper

from ....dialects.core import spec_of
from ..reading.model import opsets
from ..reading.names import normal_domain
from .functions import OnnxFunction
from .registry import schema_of


def is_defined(op_type: str, opset: int, domain: str = "") -> bool:
    """Returns whether ONNX, at an opset of its domain, defines an operator by others."""
    schema = _schema(op_type, opset, domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _schema(op_type: str, opset: int, domain: str) -> Any:
    """ONNX's declaration, typed as Any because its type stubs lack the members about functions."""
    return schema_of(op_type, opset, domain)


def definition_of(
    call: onnx.NodeProto, versions: Mapping[str, int], inputs: Sequence[ir.Value | None]
) -> OnnxFunction | None:
    """The definition of a node's operator; None if ONNX has none.

    Args:
        call: the node; some definitions depend on its attributes.
        versions: opset versions of the operator domains at the node; they apply to domains the definition omits.
        inputs: its inputs; some definitions depend on their types.
    """
    domain = normal_domain(call.domain)
    opset = versions[domain]
    schema = _schema(call.op_type, opset, domain)
    if schema is None:
        return None
    plain, dependent = schema.function_opset_versions, schema.context_dependent_function_opset_versions
    if schema.has_function:
        data = schema.get_function_with_opset_version(_newest(plain, opset))
    elif schema.has_context_dependent_function:
        types = [b"" if value is None else _type_of(value) for value in inputs]
        version = _newest(dependent, opset)
        data = schema.get_context_dependent_function_with_opset_version(version, call.SerializeToString(), types)
    else:
        return None
    proto = onnx.FunctionProto.FromString(data)
    given = {attribute.name for attribute in [*call.attribute, *proto.attribute_proto]}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            proto.attribute_proto.append(attribute.default_value)
    own = {**versions, **opsets(proto.opset_import, call.op_type)}
    return OnnxFunction((domain, call.op_type, f"of opset {opset}"), proto, own)


def _newest(versions: Sequence[int], opset: int) -> int:
    """The newest version of a definition that is not newer than an opset; the opset itself if none is listed."""
    return max((version for version in versions if version <= opset), default=opset)


def _type_of(value: ir.Value) -> bytes:
    spec = spec_of(value)
    dims = [dim if isinstance(dim, int) else None for dim in spec.shape]
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(spec.dtype), dims).SerializeToString()
