"""An ONNX graph under construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass
class OnnxGraph:
    """A graph under construction; values are named after the nodes that compute them.

    Attributes:
        nodes: the nodes, in order.
        stored: the weights by name.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def add(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns the name of its output."""
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def constant(self, name: str, value: Any, dtype: type = np.int64) -> str:
        """Adds a Constant node."""
        return self.add("Constant", name, value=numpy_helper.from_array(np.array(value, dtype)))

    def store(self, name: str, array: np.ndarray) -> str:
        """Stores a weight; returns its name."""
        self.stored[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name
