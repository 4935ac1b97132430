"""Faults that are planted into a trained model, and whether the quantiser's report names them.

Each fault changes one product of a model of the package atspm-detector. For example, a channel of its activation
becomes large and the weights of this channel small, or scales leave the range of float32. The report must name the
fault, with the channel, in the entry of this product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..quantization.quantize import quantize
from .models import packaged

_MODEL = packaged("atspm_detector", "weights/funcnet/x100_w32full_head.onnx")
_PLACE = 1
"""Index of the product that gets the fault, among the products of two matrices."""
_CHANNEL = 5
_SAMPLES = 4

_Edit = Callable[["_Model"], None]


@dataclass(frozen=True)
class PlantedFault:
    """A fault, and the text that names it.

    Attributes:
        name: what is planted.
        edit: the change of the model.
        named: text of the reason that must be reported.
        options: options of the quantisation.
        spread: factor of the first calibration sample's floats.
    """

    name: str
    edit: _Edit
    named: str
    options: Mapping[str, Any]
    spread: float = 1.0


@dataclass(frozen=True)
class FaultRow:
    """The result of one fault.

    Attributes:
        fault: its name.
        wanted: text of the reason that must be reported.
        reasons: the reported reasons of the product.
        cure: the cure that was applied.
    """

    fault: str
    wanted: str
    reasons: tuple[str, ...]
    cure: str

    @property
    def is_named(self) -> bool:
        """Returns whether the report names the fault."""
        return any(self.wanted in reason for reason in self.reasons)


class _Model:
    """A model whose chosen product is changed."""

    def __init__(self, path: Path) -> None:
        self.proto = onnx.load(path)
        constants = {item.name: item for item in self.proto.graph.initializer}
        products = [node for node in self.proto.graph.node if node.op_type == "MatMul" and node.input[1] in constants]
        self.node = products[_PLACE]
        self.node.name = "planted"
        self._tensor = constants[self.node.input[1]]
        self.weight = numpy_helper.to_array(self._tensor).copy()

    def scale_activation(self, factors: np.ndarray | float, back: np.ndarray | float) -> None:
        """Multiplies the activation by factors, and the rows of the weights by others."""
        index = list(self.proto.graph.node).index(self.node)
        name = numpy_helper.from_array(np.broadcast_to(np.float32(factors), len(self.weight)).copy(), "planted_factors")
        self.proto.graph.initializer.append(name)
        node = helper.make_node("Mul", [self.node.input[0], name.name], ["planted_data"], "planted_mul")
        self.proto.graph.node.insert(index, node)
        self.node.input[0] = "planted_data"
        self.weight = (self.weight.T * np.float32(back)).T

    def scale_result(self, factor: float) -> None:
        """Multiplies the result by a factor in two steps, because it may be beyond float32."""
        result, root = self.node.output[0], np.float32(np.sqrt(factor))
        self.proto.graph.initializer.append(numpy_helper.from_array(np.array(root), "planted_root"))
        index = list(self.proto.graph.node).index(self.node)
        self.node.output[0] = "planted_product"
        steps = (("planted_product", "planted_half"), ("planted_half", result))
        for place, (before, after) in enumerate(steps):
            node = helper.make_node("Mul", [before, "planted_root"], [after], f"planted_step_{place}")
            self.proto.graph.node.insert(index + 1 + place, node)

    def finished(self) -> onnx.ModelProto:
        """Returns the model."""
        self._tensor.CopyFrom(numpy_helper.from_array(self.weight.astype(np.float32), self._tensor.name))
        return self.proto


def _outlier(model: _Model) -> None:
    factors = np.ones(len(model.weight), np.float32)
    factors[_CHANNEL] = 300.0
    model.scale_activation(factors, 1 / factors)


def _large_weight(model: _Model) -> None:
    model.weight[_CHANNEL, 3] = 100 * np.abs(model.weight).max()


def _large_row(model: _Model) -> None:
    model.weight[_CHANNEL] *= 100


def _spread(model: _Model) -> None:
    """Makes two weights of each column large, in rows that differ from column to column."""
    random, size = np.random.default_rng(0), 9 * model.weight.std()
    for column in range(model.weight.shape[1]):
        model.weight[random.choice(len(model.weight), 2, replace=False), column] = size, -size


def _small_weights(model: _Model) -> None:
    model.weight *= np.float32(1e-34)
    model.scale_result(1e34)


def _small_activation(model: _Model) -> None:
    model.scale_activation(1e-33, 1e33)


def _small_product(model: _Model) -> None:
    model.scale_activation(1e-20, 1.0)
    model.weight *= np.float32(1e-20)
    model.scale_result(1e40)


def _nothing(model: _Model) -> None:
    del model


_OUTLIERS = f"channels of the activation with outliers: {_CHANNEL}"
PLANTED = (
    PlantedFault("a large channel of the activation, static", _outlier, _OUTLIERS, {}),
    PlantedFault("a large channel of the activation, dynamic", _outlier, _OUTLIERS, {"method": "dynamic"}),
    PlantedFault("a large weight, 8 bits", _large_weight, "output channels of the weights with outliers: 3", {}),
    PlantedFault(
        "a large row of weights, 4 bits",
        _large_row,
        f"input channels of the weights with outliers: {_CHANNEL}",
        {"method": "weights"},
    ),
    PlantedFault("blocks of very different weights", _spread, "are too large", {"method": "weights", "block": 128}),
    PlantedFault("a range that clips", _nothing, "are clipped", {"ranges": "percentile", "percentile": 0.97}),
    PlantedFault("one call with values 1000 times as large", _nothing, "its range is too wide", {}, 1000.0),
    PlantedFault("weights below float32's least scale", _small_weights, "whose scale underflows", {}),
    PlantedFault("an activation below it", _small_activation, "the scale of the activation underflows", {}),
    PlantedFault("a product of scales below it", _small_product, "the product of the scales underflows", {}),
)
"""The planted faults."""


def name_fault(fault: PlantedFault, folder: Path) -> FaultRow:
    """Quantises the model with a fault, and returns what the report says about the product."""
    model = _Model(_MODEL(folder))
    fault.edit(model)
    random = np.random.default_rng(0)
    shapes = {"logit": (2, 8), "Z": (2, 8, 128), "act": (2,)}
    samples = [
        {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(_SAMPLES)
    ]
    samples[0]["Z"] *= np.float32(fault.spread)
    report = quantize(model.finished(), samples, samples=_SAMPLES, **fault.options).report
    (found,) = [item for item in report.products if item.node == "planted"]
    return FaultRow(fault.name, fault.named, found.reasons, found.cure)
