"""A model whose products take their form from an input, so that any assignment of widths is measured by one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .float_model import FloatProduct
from .forms import NarrowActivation, Width
from .observation import Sample, compiled, outputs_of
from .plan import FOLLOWERS, Plan
from .preparation import add_initializer
from .subgraphs import graphs_in, replace_nodes

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
    return np.array([*forms, *(name in narrow for name in plan.activations)], bool)


def _switched(plan: Plan) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(plan.model.proto)
    count = sum(len(item.widths) - 1 for item in plan.products) + len(plan.activations)
    proto.graph.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [count]))
    offsets, place = {}, 0
    for item in plan.products:
        offsets[item.product.name] = place
        place += len(item.widths) - 1
    places = _Places(offsets, {name: place + index for index, name in enumerate(plan.activations)})
    maker = _Maker(proto.graph)
    for graph in graphs_in(proto.graph):
        maker.enter()
        for node in graph.node:
            _switch(plan, node, places, maker)
            maker.nodes.append(node)
        replace_nodes(graph, maker.nodes)
    return proto


@dataclass(frozen=True)
class _Places:
    """Indices of switches.

    Attributes:
        forms: that of the first narrow form of each product.
        followers: that of each activation, for the other operators that read its narrow form.
    """

    forms: Mapping[str, int]
    followers: Mapping[str, int]


def _switch(plan: Plan, node: onnx.NodeProto, places: _Places, maker: _Maker) -> None:
    """Makes the inputs of a node depend on switches."""
    item = plan.of(node.name)
    if item is not None:
        first, data = places.forms[node.name], node.input[0]
        for index, width in enumerate(item.widths[1:]):
            switch = maker.switch(first + index)
            node.input[1] = maker.either(switch, maker.constant("weight", width.weight), node.input[1])
            if width.activation is not None:
                narrow = maker.narrow(item.product, data, width.activation, width.wide)
                node.input[0] = maker.either(switch, narrow, node.input[0])
    elif node.op_type in FOLLOWERS:
        for position, name in enumerate(node.input):
            form = plan.activations.get(name)
            if form is not None and form.scale is not None:
                switch = maker.switch(places.followers[name])
                node.input[position] = maker.either(switch, maker.narrow(None, name, form, ()), name)


class _Maker:
    """Adds the nodes that select between forms."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._graph = graph
        self._count = 0
        self._narrow: dict[tuple[str, int, tuple[int, ...]], str] = {}
        self._weights: dict[int, str] = {}

    def enter(self) -> None:
        """Begins the nodes of a graph; those of another one are not visible in it."""
        self.nodes, self._narrow = [], {}

    def constant(self, what: str, array: np.ndarray | np.generic) -> str:
        """Returns a constant tensor."""
        return add_initializer(self._graph, self._name(what), np.asarray(array))

    def weight(self, width: Width) -> str:
        """Returns the weights of a form, which products may share."""
        if id(width) not in self._weights:
            self._weights[id(width)] = self.constant("weight", width.weight)
        return self._weights[id(width)]

    def switch(self, index: int) -> str:
        """Returns a switch as a scalar."""
        return self._node("Gather", [SWITCHES, self.constant("index", np.int64(index))])

    def either(self, switch: str, narrow: str, wide: str) -> str:
        """Returns one of two tensors."""
        return self._node("Where", [switch, narrow, wide])

    def narrow(self, product: FloatProduct | None, name: str, form: NarrowActivation, wide: tuple[int, ...]) -> str:
        """Returns an activation after quantisation to 8 bits and back; its wide channels stay as they are."""
        key = (name, id(form), wide)
        if key in self._narrow:
            return self._narrow[key]
        data, mask = name, ""
        if product is not None and form.factors is not None:
            inverse = self.constant("inverse", product.along_channels(1.0 / form.factors))
            data = self._node("Mul", [data, inverse])
        if product is not None and wide:
            is_wide = np.isin(np.arange(product.channels), wide)
            mask = self.constant("wide", product.along_channels(is_wide))
            if form.scale is None:
                data = self._node("Where", [mask, self.constant("zero", np.float32(0.0)), data])
        if form.scale is not None:
            scale = self.constant("scale", np.float32(form.scale.scale))
            zero_point = self.constant("zero", np.uint8(form.scale.zero_point))
            codes = self._node("QuantizeLinear", [data, scale, zero_point])
        else:
            codes, scale, zero_point = (self._name(part) for part in ("codes", "scale", "zero"))
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [data], [codes, scale, zero_point]))
        result = self._node("DequantizeLinear", [codes, scale, zero_point])
        if product is not None and form.factors is not None:
            result = self._node("Mul", [result, self.constant("factors", product.along_channels(form.factors))])
        if mask:
            result = self._node("Where", [mask, name, result])
        self._narrow[key] = result
        return result

    def _node(self, kind: str, inputs: Sequence[str]) -> str:
        result = self._name(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [result], name=result))
        return result

    def _name(self, what: str) -> str:
        self._count += 1
        return f"stepwell_switch_{what}_{self._count}"
