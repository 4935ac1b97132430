"""The op interface `onnx`: nodes of ONNX that compute an op's results.

    @ONNX_FORM.attach(RsqrtOp)
    def rsqrt(op: RsqrtOp, nodes: NodeWriter) -> str:
        return nodes.add("Reciprocal", nodes.add("Sqrt", op.input))

A rule adds nodes and returns the names of the tensors that hold the op's results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from ....dialects.dims import numbers
from ....dialects.interfaces import Interface
from ....dialects.types import spec_of_type
from ....support.errors import StepwellError

if TYPE_CHECKING:
    from .node_writer import NodeWriter

_Rule = Callable[[Any, "NodeWriter"], "str | Sequence[str]"]
"""Takes an op and the writer, and returns the name of the result, or of each of several results."""

ONNX_FORM = Interface[_Rule]("onnx", "nodes of ONNX that compute the results", rooms=("frontend.onnx.writing.rules",))


class NoOnnxFormError(StepwellError):
    """An op has no form in ONNX, with these attributes or at all; the message gives the op and the reason."""


def same(kind: str, *attributes: str, **fixed: Any) -> _Rule:
    """Returns the rule of an op that one node computes, with the same operands in the same order.

    Args:
        kind: the node's operator.
        attributes: names that attributes of the op and of the node share.
        fixed: further attributes of the node.
    """

    def rule(op: Any, nodes: NodeWriter) -> str:
        shared = {name: getattr(op, name) for name in attributes}
        return nodes.add(kind, *op.operand_values(), **shared, **fixed)

    return rule


def static_shape(value: ir.Value) -> tuple[int, ...]:
    """Returns the shape of a value.

    Raises:
        NoOnnxFormError: a dimension is symbolic.
    """
    spec = spec_of_type(value.type)
    if not spec.is_static:
        raise NoOnnxFormError(f"its form in ONNX needs numbers, but an operand is {spec}")
    return numbers(spec.shape)
