"""Writes a module of stepwell ops as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from mlir import ir
from onnx import helper

from ....dialects.dims import Symbolic
from ....dialects.registry import view_of
from ....dialects.stepwell.constant import ConstantOp, ParameterOp
from ....dialects.types import spec_of_type
from ....passes.ir.locations import dominant
from ....sizes.expressions import expression_of, text_of
from ...imported import ModelInfo
from .node_writer import NodeWriter
from .onnx_form import ONNX_FORM, NoOnnxFormError

OPSET = 20
"""The operator set of written models: the oldest with Gelu and with AffineGrid; read by ONNX Runtime 1.17 and later."""
_IR_VERSION = 9
"""The version of ONNX's file format that came with this operator set."""
_MICROSOFT_VERSION = 1
"""The version of ONNX Runtime's domain com.microsoft (docs/ContribOperators.md: all operators are of version 1)."""


def write_model(main: ir.Operation, parameters: Mapping[str, np.ndarray], info: ModelInfo) -> onnx.ModelProto:
    """Writes @main of a module, whose shapes are inferred, as an ONNX model.

    Args:
        main: the function; its inputs and outputs are those of `info`, in order.
        parameters: the contents of the `stepwell.parameter` ops, by name.
        info: names of the model, its inputs and its outputs.

    Raises:
        NoOnnxFormError: an op has no form in ONNX; names the node of the model.
    """
    nodes = NodeWriter()
    body = main.regions[0].blocks[0]
    for argument, item in zip(body.arguments, info.inputs, strict=True):
        name = nodes.unique(item.name)
        nodes.bind(argument, name)
        for axis, dim in enumerate(spec_of_type(argument.type).shape):
            if isinstance(dim, Symbolic) and isinstance(expression := expression_of(dim), str):
                nodes.bind_size(expression, name, axis)
    outputs = [nodes.unique(item.name) for item in info.outputs]
    *ops, last = body.operations
    for operation in ops:
        _write_op(operation.operation, parameters, nodes)
    nodes.finish(list(zip(outputs, last.operands, strict=False)))  # operands after the outputs are the compiler's own
    graph = helper.make_graph(
        nodes.nodes,
        info.name or "model",
        [_value_info(item.name, value) for item, value in zip(info.inputs, body.arguments, strict=True)],
        [_value_info(item.name, value) for item, value in zip(info.outputs, last.operands, strict=False)],
        nodes.constants,
    )
    domains = [helper.make_opsetid("", OPSET)]
    domains += [helper.make_opsetid(domain, _MICROSOFT_VERSION) for domain in sorted(nodes.domains)]
    return helper.make_model(graph, opset_imports=domains, ir_version=_IR_VERSION, producer_name="stepwell")


def _write_op(operation: ir.Operation, parameters: Mapping[str, np.ndarray], nodes: NodeWriter) -> None:
    view = view_of(operation)
    where = dominant(operation.location)
    nodes.at(where)
    if isinstance(view, ParameterOp):
        nodes.bind(view.result, nodes.constant(parameters[view.name], view.name))
        return
    if isinstance(view, ConstantOp):
        nodes.bind(view.result, nodes.constant(view.value, where or "constant"))
        return
    rule = None if view is None else ONNX_FORM.of(type(view))
    try:
        if rule is None:
            raise NoOnnxFormError("ONNX has no operator for it that this writer knows")
        names = rule(view, nodes)
    except NoOnnxFormError as error:
        place = f"node '{where}': " if where else ""
        raise NoOnnxFormError(f"{place}{operation.name} cannot be written as ONNX: {error}") from None
    for value, name in zip(operation.results, [names] if isinstance(names, str) else names, strict=True):
        nodes.bind(value, name)


def _value_info(name: str, value: ir.Value) -> onnx.ValueInfoProto:
    spec = spec_of_type(value.type)
    dims = [text_of(expression_of(dim)) if isinstance(dim, Symbolic) else dim for dim in spec.shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(spec.dtype), dims)
