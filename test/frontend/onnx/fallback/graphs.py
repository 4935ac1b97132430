"""Nodes and values of the graphs that the tests of this folder divide."""

import stepwell
from onnx import TensorProto, helper

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
QUIET = stepwell.Options(fallback="quiet")


def node(op_type, inputs, outputs, **attributes):
    """A named node."""
    return helper.make_node(op_type, inputs, outputs, name=f"{op_type}_{outputs[0]}", **attributes)


def value(name, kind, shape=None):
    """The declaration of a graph's input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def through_text(source, target):
    """Nodes that convert a value to strings and back, which only the host can do."""
    texts = node("Cast", [source], [f"{target}_text"], to=STRING)
    return [texts, node("Cast", [f"{target}_text"], [target], to=FLOAT)]
