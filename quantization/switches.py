"""A model whose products take their form from an input, so that any assignment of widths is measured by one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .observation import Sample, compiled, outputs_of
from .plan import FOLLOWERS, Plan, ProductPlan
from .preparation import add_initializer, by_activation
from .scales import ActivationScale

SWITCHES = "stepwell_switches"


@dataclass(frozen=True)
class OutputErrors:
    """Distance of outputs from those of the float model, over all measured samples.

    Attributes:
        square: mean over the float outputs of the sum of squares of differences, relative to that of the values.
        kld: mean Kullback-Leibler divergence of the first output, taken as logits.
    """

    square: float
    kld: float

    @property
    def relative(self) -> float:
        """Root mean square of the differences, relative to that of the values."""
        return float(np.sqrt(self.square))


class SwitchModel:
    """Measures assignments of widths to products."""

    def __init__(self, plan: Plan, samples: Sequence[Sample]) -> None:
        """Compiles the model and computes the float outputs.

        Args:
            plan: the products and their forms.
            samples: the samples to measure on.
        """
        self._plan, self._samples = plan, samples
        self._executable = compiled(_switched(plan))
        wide = [0] * len(plan.products)
        self._wanted = [self._outputs(sample, wide) for sample in samples]

    def errors(self, levels: Sequence[int]) -> OutputErrors:
        """Measures an assignment: the form of each product, an index of its widths."""
        squares, divergences = [], []
        for sample, wanted in zip(self._samples, self._wanted, strict=True):
            got = self._outputs(sample, levels)
            squares.append(np.mean([_square(one, other) for one, other in zip(got, wanted, strict=True)]))
            divergences.append(_divergence(got[0], wanted[0]))
        return OutputErrors(float(np.mean(squares)), float(np.mean(divergences)))

    def _outputs(self, sample: Sample, levels: Sequence[int]) -> list[np.ndarray]:
        given: dict[str, Any] = {**sample, SWITCHES: _vector(self._plan, levels)}
        results = outputs_of(self._executable, given)
        return [item.astype(np.float64) for item in results if np.issubdtype(item.dtype, np.floating)]


def _square(got: np.ndarray, want: np.ndarray) -> float:
    total = float((want**2).sum())
    return float(((got - want) ** 2).sum()) / total if total else float(np.any(got != want))


def _divergence(got: np.ndarray, want: np.ndarray) -> float:
    if not want.ndim:
        return 0.0
    logs = [item - item.max(axis=-1, keepdims=True) for item in (got, want)]
    got, want = (item - np.log(np.exp(item).sum(axis=-1, keepdims=True)) for item in logs)
    return float((np.exp(want) * (want - got)).sum(axis=-1).mean())


def _vector(plan: Plan, levels: Sequence[int]) -> np.ndarray:
    """Returns the switches: one for each narrow form of each product, then one for each activation."""
    forms = [
        level == index
        for item, level in zip(plan.products, levels, strict=True)
        for index in range(1, len(item.widths))
    ]
    narrow = plan.narrow_activations(levels)
    return np.array([*forms, *(name in narrow for name in _activations(plan))], bool)


def _activations(plan: Plan) -> list[str]:
    return list(by_activation([item.product for item in plan.products])) if plan.options.method != "weights" else []


def _switched(plan: Plan) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(plan.model.proto)
    graph = proto.graph
    maker = _Maker(graph)
    activations = _activations(plan)
    count = sum(len(item.widths) - 1 for item in plan.products) + len(activations)
    graph.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [count]))
    plans = {item.product.name: item for item in plan.products}
    offsets, place = {}, 0
    for item in plan.products:
        offsets[item.product.name] = place
        place += len(item.widths) - 1
    switch_of = {name: place + index for index, name in enumerate(activations)}
    for node in list(graph.node):
        item = plans.get(node.name)
        if item is not None:
            first = offsets[node.name]
            node.input[1] = maker.weight(item, node.input[1], first)
            if item.product.data in switch_of:
                switch = maker.switch(first)
                node.input[0] = maker.either(switch, maker.narrow(item.product.data, plan.scales), item.product.data)
        elif node.op_type in FOLLOWERS:
            for position, name in enumerate(node.input):
                if name in switch_of:
                    switch = maker.switch(switch_of[name])
                    node.input[position] = maker.either(switch, maker.narrow(name, plan.scales), name)
        maker.nodes.append(node)
    nodes = maker.nodes
    del graph.node[:]
    graph.node.extend(nodes)
    return proto


class _Maker:
    """Adds the nodes that select between forms."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._graph = graph
        self._count = 0
        self._narrow: dict[str, str] = {}

    def switch(self, index: int) -> str:
        """Returns a switch as a scalar."""
        position = add_initializer(self._graph, self._name("index"), np.int64(index))
        return self._node("Gather", [SWITCHES, position])

    def either(self, switch: str, narrow: str, wide: str) -> str:
        """Returns one of two tensors."""
        return self._node("Where", [switch, narrow, wide])

    def weight(self, item: ProductPlan, wide: str, first: int) -> str:
        """Returns the weights of a product in the selected form."""
        selected = wide
        for index, width in enumerate(item.widths[1:]):
            stored = add_initializer(self._graph, self._name("weight"), width.weight)
            selected = self.either(self.switch(first + index), stored, selected)
        return selected

    def narrow(self, name: str, scales: Mapping[str, ActivationScale]) -> str:
        """Returns an activation after quantisation to 8 bits and back."""
        if name not in self._narrow:
            if name in scales:
                scale = add_initializer(self._graph, self._name("scale"), np.float32(scales[name].scale))
                zero_point = add_initializer(self._graph, self._name("zero"), np.uint8(scales[name].zero_point))
                codes = self._node("QuantizeLinear", [name, scale, zero_point])
            else:
                codes, scale, zero_point = (self._name(part) for part in ("codes", "scale", "zero"))
                self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name], [codes, scale, zero_point]))
            self._narrow[name] = self._node("DequantizeLinear", [codes, scale, zero_point])
        return self._narrow[name]

    def _node(self, kind: str, inputs: Sequence[str]) -> str:
        result = self._name(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [result], name=result))
        return result

    def _name(self, what: str) -> str:
        self._count += 1
        return f"stepwell_switch_{what}_{self._count}"
