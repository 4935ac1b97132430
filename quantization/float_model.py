"""A float ONNX model as the quantiser sees it: its weights as arrays, and its products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

from ..frontend.onnx.reading.model import inlined, read_model
from ..frontend.onnx.reading.weights import tensor_array
from ..support.errors import StepwellError
from .subgraphs import graphs_in, hoist_constants, name_values, nodes_in

_OLDEST = 13
"""The first opset whose DequantizeLinear takes a scale for each channel."""


class QuantizationError(StepwellError):
    """A model cannot be quantised as requested; the message says why and what to do."""


@dataclass(frozen=True)
class FloatProduct:
    """A node that multiplies an activation by constant weights.

    Attributes:
        node: the node: Conv, Gemm or MatMul.
        weight: the weights, as the node takes them.
        axis: the axis of the weights with the output channels.
    """

    node: onnx.NodeProto
    weight: np.ndarray
    axis: int

    @property
    def name(self) -> str:
        """The node's name, which is unique."""
        return self.node.name

    @property
    def data(self) -> str:
        """The name of the activation."""
        return self.node.input[0]

    @property
    def is_matrix(self) -> bool:
        """True if the weights are a matrix, which may be quantised in blocks."""
        return self.node.op_type in ("Gemm", "MatMul")

    @property
    def matrix(self) -> np.ndarray:
        """The weights as a matrix [reduction, output channels]."""
        first = np.moveaxis(self.weight, self.axis, -1)
        return first.reshape(-1, first.shape[-1])

    def weight_of(self, matrix: np.ndarray) -> np.ndarray:
        """Returns weights, as the node takes them, of a matrix [reduction, output channels]."""
        moved = np.moveaxis(self.weight, self.axis, -1).shape
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(moved), -1, self.axis))

    @property
    def channels(self) -> int:
        """The number of input channels that each output channel reads."""
        return self.weight.shape[1] if self.node.op_type == "Conv" else len(self.matrix)

    @property
    def is_whole(self) -> bool:
        """True if every output channel reads every channel of the activation."""
        return self.node.op_type != "Conv" or self.attribute("group", 1) == 1

    def by_row(self, factors: np.ndarray) -> np.ndarray:
        """Returns the number of each row of the matrix, from one for each input channel."""
        return np.repeat(factors, len(self.matrix) // self.channels)

    def along_channels(self, numbers: np.ndarray) -> np.ndarray:
        """Returns one number for each input channel, in a shape that broadcasts with the activation."""
        return numbers.reshape(-1, *[1] * (self.weight.ndim - 2)) if self.node.op_type == "Conv" else numbers

    def rows_of(self, channels: tuple[int, ...]) -> np.ndarray:
        """Returns the rows of the matrix that belong to input channels."""
        is_chosen = np.zeros(self.channels, bool)
        is_chosen[list(channels)] = True
        return np.flatnonzero(self.by_row(is_chosen))

    @property
    def channel_axis(self) -> int:
        """The axis of the activation that the weights' input channels belong to, counted from the end for products."""
        return 1 if self.node.op_type == "Conv" else -1

    def attribute(self, name: str, default: Any) -> Any:
        """Returns an attribute of the node."""
        return next((helper.get_attribute_value(item) for item in self.node.attribute if item.name == name), default)


@dataclass
class FloatModel:
    """A float model without external data and local functions; nodes and values all have a unique name.

    Attributes:
        proto: the model; changed in place by preparations.
        arrays: the constant float tensors, by name.
        products: the products, in the order of the nodes; those of branches and loops follow.
    """

    proto: onnx.ModelProto
    arrays: dict[str, np.ndarray]
    products: list[FloatProduct] = field(default_factory=list)

    @staticmethod
    def read(model: onnx.ModelProto | bytes | str | Path, wanted: int = 0) -> FloatModel:
        """Reads a model, and finds its products.

        Args:
            model: the model.
            wanted: the opset to convert it to if it has an older one and ONNX can.

        Raises:
            ModelError: it is not an ONNX model, or its weights cannot be read.
            QuantizationError: it has no product with constant weights.
        """
        found = inlined(read_model(model))
        proto = onnx.ModelProto()
        proto.CopyFrom(found.proto)
        for tensor in proto.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                tensor.CopyFrom(numpy_helper.from_array(tensor_array(tensor, found.folder), tensor.name))
        proto = _at_least(proto, _OLDEST, found.name)
        proto = _at_best(proto, wanted)
        name_values(proto.graph)
        _name_nodes(proto.graph)
        hoist_constants(proto.graph)
        result = FloatModel(proto, {})
        result.find_products()
        if not result.products:
            raise QuantizationError(
                f"{found.name}: has no Conv, Gemm or MatMul whose weights are float32 constants; "
                "a model that is quantised already, or that computes its weights, has nothing to quantise"
            )
        return result

    def find_products(self) -> None:
        """Finds the weights and the products again, after the nodes were changed."""
        self.arrays = {
            tensor.name: np.asarray(tensor_array(tensor, None))
            for tensor in self.graph.initializer
            if tensor.data_type == onnx.TensorProto.FLOAT
        }
        self.products = list(self._products())

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return max(item.version for item in self.proto.opset_import if item.domain in ("", "ai.onnx"))

    @property
    def graph(self) -> onnx.GraphProto:
        """The graph."""
        return self.proto.graph

    @property
    def consumers(self) -> dict[str, list[onnx.NodeProto]]:
        """The nodes that take each tensor."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes_in(self.graph):
            for name in node.input:
                found.setdefault(name, []).append(node)
        return found

    @property
    def results(self) -> set[str]:
        """The values that the graph or a graph inside it returns."""
        return {item.name for graph in graphs_in(self.graph) for item in graph.output}

    def _products(self) -> Iterator[FloatProduct]:
        for node in nodes_in(self.graph):
            if node.domain not in ("", "ai.onnx") or node.op_type not in ("Conv", "Gemm", "MatMul"):
                continue
            weight = self.arrays.get(node.input[1]) if len(node.input) > 1 else None
            if weight is None or node.input[0] in self.arrays:
                continue
            plain = FloatProduct(node, weight, 0)
            if node.op_type == "Conv":
                yield plain
            elif weight.ndim == 2 and not plain.attribute("transA", 0):
                yield FloatProduct(node, weight, 0 if plain.attribute("transB", 0) else 1)


def _at_least(proto: onnx.ModelProto, opset: int, name: str) -> onnx.ModelProto:
    if any(item.version >= opset for item in proto.opset_import if item.domain in ("", "ai.onnx")):
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except (RuntimeError, version_converter.ConvertError) as error:
        reason = str(error).strip().rpartition("failed: ")[2]
        message = f"{name}: has an opset before {opset}, and ONNX cannot convert it: {reason}; export it again"
        raise QuantizationError(message) from None


def _at_best(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Returns a model at an opset, or as it is if ONNX cannot convert it; values stay the same in both cases."""
    try:
        return _at_least(proto, opset, "")
    except QuantizationError:
        return proto


def _name_nodes(graph: onnx.GraphProto) -> None:
    taken: set[str] = set()
    for index, node in enumerate(nodes_in(graph)):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
            while node.name in taken:
                node.name += "_"
        taken.add(node.name)
