"""Writes a quantised model as ONNX that other runtimes run too: QDQ, DynamicQuantizeLinear, or MatMulNBits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .blocks import BlockWeights
from .float_model import FloatProduct
from .plan import FOLLOWERS, Plan
from .preparation import add_initializer
from .scales import ChannelWeights

RECIPE = "stepwell.quantization"
"""Key of the model's metadata with the options and the form of each product."""
_MICROSOFT = "com.microsoft"
_CONV_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def write(plan: Plan, recipe: Mapping[str, object]) -> onnx.ModelProto:
    """Returns the quantised model, with the recipe in its metadata."""
    proto = onnx.ModelProto()
    proto.CopyFrom(plan.model.proto)
    writer = _Writer(plan, proto.graph)
    for node in list(proto.graph.node):
        writer.add(node)
    del proto.graph.node[:]
    proto.graph.node.extend(writer.nodes)
    _drop_unused(proto.graph)
    del proto.graph.value_info[:]
    if any(node.domain == _MICROSOFT for node in proto.graph.node):
        _import(proto, _MICROSOFT, 1)
    proto.metadata_props.append(onnx.StringStringEntryProto(key=RECIPE, value=json.dumps(recipe)))
    return proto


def _import(proto: onnx.ModelProto, domain: str, version: int) -> None:
    if all(item.domain != domain for item in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(domain, version))


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Drops initializers that no node takes any more."""
    used = {name for node in graph.node for name in _taken(node)} | {item.name for item in graph.output}
    kept = [item for item in graph.initializer if item.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _taken(node: onnx.NodeProto) -> list[str]:
    inner = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
    inner += [graph for item in node.attribute for graph in item.graphs]
    return [*node.input, *(name for graph in inner for each in graph.node for name in _taken(each))]


class _Writer:
    def __init__(self, plan: Plan, graph: onnx.GraphProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._plan, self._graph = plan, graph
        self._forms = {
            item.product.name: (item.product, stored)
            for item, level in zip(plan.products, plan.levels, strict=True)
            if (stored := item.widths[level].stored) is not None
        }
        self._narrow = plan.narrow_activations(plan.levels) if plan.options.method == "static" else set()
        self._done: dict[str, Sequence[str]] = {}

    def add(self, node: onnx.NodeProto) -> None:
        """Adds a node of the float model, in its quantised form if it has one."""
        if node.name in self._forms:
            product, stored = self._forms[node.name]
            if isinstance(stored, BlockWeights):
                self._add_blocks(node, product, stored)
            elif self._plan.options.method == "dynamic":
                self._add_dynamic(node, product, stored)
            else:
                self._add_static(node, product, stored)
            return
        if node.op_type in FOLLOWERS:
            for position, name in enumerate(node.input):
                if name in self._narrow:
                    node.input[position] = self._quantized(name)
        self.nodes.append(node)

    def _quantized(self, name: str) -> str:
        """Returns an activation in 8 bits and back."""
        if name not in self._done:
            scale = self._plan.scales[name]
            parameters = [
                self._constant(f"{name}_scale", np.float32(scale.scale)),
                self._constant(f"{name}_zero_point", np.uint8(scale.zero_point)),
            ]
            codes = self._node("QuantizeLinear", [name, *parameters], f"{name}_quantized")
            self._done[name] = [self._node("DequantizeLinear", [codes, *parameters], f"{name}_dequantized")]
        return self._done[name][0]

    def _add_static(self, node: onnx.NodeProto, product: FloatProduct, weights: ChannelWeights) -> None:
        """MatMul(x, W)  -->  MatMul(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(codes of W))."""
        scales, codes = weights.scales, product.weight_of(weights.codes)
        name = f"{node.name}_weight"
        stored = [
            self._constant(f"{name}_codes", codes),
            self._constant(f"{name}_scale", scales),
            self._constant(f"{name}_zero_point", np.zeros(len(scales), np.int8)),
        ]
        weight = self._node("DequantizeLinear", stored, name, axis=product.axis)
        inputs = [self._quantized(product.data), weight]
        if len(node.input) > 2 and node.input[2]:
            inputs.append(self._bias(node, product, scales))
        del node.input[:]
        node.input.extend(inputs)
        self.nodes.append(node)

    def _bias(self, node: onnx.NodeProto, product: FloatProduct, scales: np.ndarray) -> str:
        """Returns the bias in 32 bits with the scale of the sums; the bias itself if it does not fit."""
        bias = self._plan.model.arrays.get(node.input[2])
        step = scales.astype(np.float64) * self._plan.scales[product.data].scale
        if bias is None or bias.shape != step.shape or product.attribute("beta", 1.0) != 1.0:
            return node.input[2]
        codes = np.rint(bias / step)
        if np.abs(codes).max(initial=0) > np.iinfo(np.int32).max:
            return node.input[2]
        name = f"{node.name}_bias"
        stored = [
            self._constant(f"{name}_codes", codes.astype(np.int32)),
            self._constant(f"{name}_scale", step.astype(np.float32)),
            self._constant(f"{name}_zero_point", np.zeros(len(step), np.int32)),
        ]
        return self._node("DequantizeLinear", stored, name, axis=0)

    def _add_dynamic(self, node: onnx.NodeProto, product: FloatProduct, weights: ChannelWeights) -> None:
        """MatMul(x, W)  -->  Mul(Cast(MatMulInteger(codes of x, codes of W)), scale of x * scale of W)."""
        data, is_conv = product.data, node.op_type == "Conv"
        if data not in self._done:
            outputs = [f"{data}_{part}" for part in ("quantized", "scale", "zero_point")]
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [data], outputs, name=f"{data}_quantize"))
            self._done[data] = outputs
        codes, scale, zero_point = self._done[data]
        scales = weights.scales
        if is_conv:
            stored = product.weight_of(weights.codes)
            shape = (len(scales), *[1] * (product.weight.ndim - 2))
            attributes = {name: value for name in _CONV_ATTRIBUTES if (value := product.attribute(name, None))}
        else:
            stored, shape, attributes = weights.codes, scales.shape, {}
        kind = "ConvInteger" if is_conv else "MatMulInteger"
        sums = self._node(
            kind, [codes, self._constant(f"{node.name}_codes", stored), zero_point], f"{node.name}_sums", **attributes
        )
        floats = self._node("Cast", [sums], f"{node.name}_floats", to=TensorProto.FLOAT)
        factor = scales.reshape(shape) * np.float32(product.attribute("alpha", 1.0))
        steps = self._node("Mul", [scale, self._constant(f"{node.name}_scale", factor)], f"{node.name}_step")
        self._finish(node, self._node("Mul", [floats, steps], f"{node.name}_scaled"), product, shape)

    def _add_blocks(self, node: onnx.NodeProto, product: FloatProduct, blocks: BlockWeights) -> None:
        """MatMul(x, W)  -->  MatMulNBits(x, codes of W, scales, zero points)."""
        channels = blocks.scales.shape[1]
        count = len(blocks.scales)
        codes = blocks.codes.reshape(count, blocks.block, channels).transpose(2, 0, 1)
        inputs = [
            product.data,
            self._constant(f"{node.name}_codes", _packed(codes, blocks.bits)),
            self._constant(f"{node.name}_scales", blocks.scales.T.reshape(-1)),
        ]
        middle = 1 << (blocks.bits - 1)
        if np.any(blocks.zero_points != middle):
            points = blocks.zero_points.T.astype(np.uint8)
            if blocks.bits == 4 and count % 2:
                points = np.pad(points, ((0, 0), (0, 1)), constant_values=middle)
            inputs.append(self._constant(f"{node.name}_zero_points", _packed(points, blocks.bits).reshape(-1)))
        result = self._node(
            "MatMulNBits",
            inputs,
            f"{node.name}_product",
            domain=_MICROSOFT,
            K=blocks.rows,
            N=channels,
            bits=blocks.bits,
            block_size=blocks.block,
        )
        alpha = product.attribute("alpha", 1.0)
        if alpha != 1.0:
            factor = self._constant(f"{node.name}_alpha", np.float32(alpha))
            result = self._node("Mul", [result, factor], f"{node.name}_times_alpha")
        self._finish(node, result, product, (channels,))

    def _finish(self, node: onnx.NodeProto, result: str, product: FloatProduct, shape: tuple[int, ...]) -> None:
        """Adds the bias of a node to its product, under the name of the node's result."""
        bias = node.input[2] if len(node.input) > 2 else ""
        if not bias:
            self.nodes.append(helper.make_node("Identity", [result], [node.output[0]], name=node.name))
            return
        beta = product.attribute("beta", 1.0)
        known = self._plan.model.arrays.get(bias)
        if beta != 1.0:
            bias = self._node(
                "Mul", [bias, self._constant(f"{node.name}_beta", np.float32(beta))], f"{node.name}_times_beta"
            )
        elif known is not None and node.op_type == "Conv":
            bias = self._constant(f"{node.name}_bias", known.reshape(shape))
        self.nodes.append(helper.make_node("Add", [result, bias], [node.output[0]], name=node.name))

    def _constant(self, name: str, array: np.ndarray | np.generic) -> str:
        return add_initializer(self._graph, name, np.asarray(array))

    def _node(self, kind: str, inputs: Sequence[str], result: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [result], name=result, domain=domain, **attributes))
        return result


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Packs numbers of 4 bits in pairs along the last axis, the first of a pair in the low bits."""
    if bits == 8:
        return codes.astype(np.uint8)
    pairs = codes.astype(np.uint8).reshape(*codes.shape[:-1], codes.shape[-1] // 2, 2)
    return pairs[..., 0] | pairs[..., 1] << 4
