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
from .forms import NarrowActivation, Width
from .plan import FOLLOWERS, Plan
from .preparation import add_initializer
from .scales import ChannelWeights
from .subgraphs import graphs_in, nodes_in, replace_nodes

RECIPE = "stepwell.quantization"
"""Key of the model's metadata with the options and the form of each product."""
_MICROSOFT = "com.microsoft"
_CONV_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def write(plan: Plan, recipe: Mapping[str, object]) -> onnx.ModelProto:
    """Returns the quantised model, with the recipe in its metadata."""
    proto = onnx.ModelProto()
    proto.CopyFrom(plan.model.proto)
    writer = _Writer(plan, proto.graph)
    for graph in graphs_in(proto.graph):
        writer.enter()
        for node in graph.node:
            writer.add(node)
        replace_nodes(graph, writer.nodes)
        del graph.value_info[:]
    _drop_unused(proto.graph)
    if any(node.domain == _MICROSOFT for node in nodes_in(proto.graph)):
        _import(proto, _MICROSOFT, 1)
    proto.metadata_props.append(onnx.StringStringEntryProto(key=RECIPE, value=json.dumps(recipe)))
    return proto


def _import(proto: onnx.ModelProto, domain: str, version: int) -> None:
    if all(item.domain != domain for item in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(domain, version))


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Drops initializers that no node takes any more."""
    used = {name for node in nodes_in(graph) for name in node.input}
    used |= {item.name for each in graphs_in(graph) for item in each.output}
    kept = [item for item in graph.initializer if item.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


class _Writer:
    def __init__(self, plan: Plan, graph: onnx.GraphProto) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._plan, self._graph = plan, graph
        self._forms = {
            item.product.name: (item.product, item.widths[level])
            for item, level in zip(plan.products, plan.levels, strict=True)
            if item.widths[level].stored is not None
        }
        self._narrow = plan.narrow_activations(plan.levels)
        self._done: dict[tuple[str, int, tuple[int, ...]], Sequence[str]] = {}
        self._scales: dict[int, list[str]] = {}
        self._taken = {item.name for item in [*graph.input, *graph.initializer]}
        self._taken |= {name for node in nodes_in(graph) for name in (node.name, *node.output)}

    def enter(self) -> None:
        """Begins the nodes of a graph; those of another one are not visible in it."""
        self.nodes, self._done = [], {}

    def add(self, node: onnx.NodeProto) -> None:
        """Adds a node of the float model, in its quantised form if it has one."""
        if node.name in self._forms:
            product, width = self._forms[node.name]
            narrow, sums = self._beside_wide(node, product, width)
            self._add_narrow(narrow, product, width)
            self.nodes.extend(sums)
            return
        if node.op_type in FOLLOWERS:
            for position, name in enumerate(node.input):
                if name in self._narrow:
                    node.input[position] = self._quantized(None, name, self._plan.activations[name])
        self.nodes.append(node)

    def _add_narrow(self, node: onnx.NodeProto, product: FloatProduct, width: Width) -> None:
        stored, form = width.stored, width.activation
        if isinstance(stored, BlockWeights):
            if product.is_matrix:
                self._add_blocks(node, product, stored)
            else:
                self._add_stored(node, product, stored)
        elif isinstance(stored, ChannelWeights) and form is not None and form.scale is not None:
            self._add_static(node, product, stored, form)
        elif isinstance(stored, ChannelWeights) and form is not None:
            self._add_dynamic(node, product, stored, form, width.wide)

    def _beside_wide(
        self, node: onnx.NodeProto, product: FloatProduct, width: Width
    ) -> tuple[onnx.NodeProto, list[onnx.NodeProto]]:
        """Adds the product of the channels that stay in float; returns the node of the others, and that of the sum.

        MatMul(x, W)  -->  Add(MatMul(x, W without rows), MatMul(Gather(x, rows), rows of W))
        """
        if not width.wide:
            return node, []
        name, axis = node.name, product.channel_axis
        channels = self._constant(f"{name}_wide", np.array(width.wide, np.int64))
        if node.op_type == "Conv":
            part, kind = np.ascontiguousarray(product.weight[:, list(width.wide)]), "Conv"
        else:
            part, kind = product.matrix[list(width.wide)] * np.float32(product.attribute("alpha", 1.0)), "MatMul"
        attributes = {key: value for key in _CONV_ATTRIBUTES if (value := product.attribute(key, None)) is not None}
        data = self._node("Gather", [product.data, channels], f"{name}_wide_channels", axis=axis)
        weight = self._constant(f"{name}_wide_weight", part)
        wide = self._node(kind, [data, weight], f"{name}_in_float", **(attributes if kind == "Conv" else {}))
        narrow = onnx.NodeProto()
        narrow.CopyFrom(node)
        narrow.output[0] = self._fresh(f"{name}_narrow")
        return narrow, [helper.make_node("Add", [narrow.output[0], wide], [node.output[0]], name=f"{name}_both")]

    def _quantized(self, product: FloatProduct | None, name: str, form: NarrowActivation) -> str:
        """Returns an activation in 8 bits and back."""
        key = (name, id(form), ())
        if key not in self._done:
            stem = name if product is None or form is self._plan.activations.get(name) else f"{product.name}_data"
            parameters = self._parameters(stem, form)
            data = self._divided(product, name, form, stem)
            codes = self._node("QuantizeLinear", [data, *parameters], f"{stem}_quantized")
            self._done[key] = [self._node("DequantizeLinear", [codes, *parameters], f"{stem}_dequantized")]
        return self._done[key][0]

    def _parameters(self, stem: str, form: NarrowActivation) -> list[str]:
        """Returns the constants of the scale and the zero point of an activation."""
        if id(form) not in self._scales:
            assert form.scale is not None
            self._scales[id(form)] = [
                self._constant(f"{stem}_scale", np.float32(form.scale.scale)),
                self._constant(f"{stem}_zero_point", np.uint8(form.scale.zero_point)),
            ]
        return self._scales[id(form)]

    def _divided(self, product: FloatProduct | None, name: str, form: NarrowActivation, stem: str) -> str:
        """Returns an activation divided by the factors of its channels."""
        if product is None or form.factors is None:
            return name
        inverse = self._constant(f"{stem}_inverse", product.along_channels(np.float32(1.0) / form.factors))
        return self._node("Mul", [name, inverse], f"{stem}_divided")

    def _fresh(self, name: str) -> str:
        """Returns a name that no other value of the model has."""
        fresh, count = name, 0
        while fresh in self._taken:
            count += 1
            fresh = f"{name}_{count}"
        self._taken.add(fresh)
        return fresh

    def _add_static(
        self, node: onnx.NodeProto, product: FloatProduct, weights: ChannelWeights, form: NarrowActivation
    ) -> None:
        """MatMul(x, W)  -->  MatMul(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(codes of W))."""
        scales, codes = weights.scales, product.weight_of(weights.codes)
        name = f"{node.name}_weight"
        stored = [
            self._constant(f"{name}_codes", codes),
            self._constant(f"{name}_scale", scales),
            self._constant(f"{name}_zero_point", np.zeros(len(scales), np.int8)),
        ]
        weight = self._node("DequantizeLinear", stored, name, axis=product.axis)
        inputs = [self._quantized(product, product.data, form), weight]
        if len(node.input) > 2 and node.input[2]:
            inputs.append(self._bias(node, product, scales, form))
        del node.input[:]
        node.input.extend(inputs)
        self.nodes.append(node)

    def _bias(self, node: onnx.NodeProto, product: FloatProduct, scales: np.ndarray, form: NarrowActivation) -> str:
        """Returns the bias in 32 bits with the scale of the sums; the bias itself if it does not fit."""
        bias = self._plan.model.arrays.get(node.input[2])
        assert form.scale is not None
        step = scales.astype(np.float64) * form.scale.scale
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

    def _add_dynamic(
        self,
        node: onnx.NodeProto,
        product: FloatProduct,
        weights: ChannelWeights,
        form: NarrowActivation,
        wide: tuple[int, ...],
    ) -> None:
        """MatMul(x, W)  -->  Mul(Cast(MatMulInteger(codes of x, codes of W)), scale of x * scale of W)."""
        codes, scale, zero_point = self._dynamic(product, form, wide)
        is_conv = node.op_type == "Conv"
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

    def _dynamic(self, product: FloatProduct, form: NarrowActivation, wide: tuple[int, ...]) -> Sequence[str]:
        """Returns an activation in 8 bits, its scale and its zero point, which each call computes."""
        key = (product.data, id(form), wide)
        if key not in self._done:
            is_plain = form is self._plan.activations.get(product.data) and not wide
            stem = product.data if is_plain else f"{product.name}_data"
            data = self._divided(product, product.data, form, stem)
            if wide:
                is_narrow = ~np.isin(np.arange(product.channels), wide)
                mask = self._constant(f"{stem}_narrow", product.along_channels(is_narrow.astype(np.float32)))
                data = self._node("Mul", [data, mask], f"{stem}_masked")
            outputs = [self._fresh(f"{stem}_{part}") for part in ("quantized", "scale", "zero_point")]
            name = self._fresh(f"{stem}_quantize")
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [data], outputs, name=name))
            self._done[key] = outputs
        return self._done[key]

    def _add_stored(self, node: onnx.NodeProto, product: FloatProduct, blocks: BlockWeights) -> None:
        """Conv(x, W)  -->  Conv(x, Reshape(DequantizeLinear(codes of W in blocks)))."""
        name, rows = node.name, blocks.rows
        kind = TensorProto.UINT4 if blocks.bits == 4 else TensorProto.UINT8
        stored = [
            self._tensor(f"{name}_codes", kind, blocks.codes[:rows].T),
            self._constant(f"{name}_scale", np.ascontiguousarray(blocks.scales.T)),
            self._tensor(f"{name}_zero_point", kind, blocks.zero_points.T),
        ]
        matrix = self._node("DequantizeLinear", stored, f"{name}_matrix", axis=1, block_size=blocks.block)
        shape = self._constant(f"{name}_shape", np.array(product.weight.shape, np.int64))
        node.input[1] = self._node("Reshape", [matrix, shape], f"{name}_weight")
        self.nodes.append(node)

    def _tensor(self, name: str, kind: int, numbers: np.ndarray) -> str:
        """Adds a constant of unsigned numbers of 4 or 8 bits."""
        codes = np.ascontiguousarray(numbers).astype(np.uint8)
        if kind == TensorProto.UINT8:
            return self._constant(name, codes)
        flat = np.append(codes.reshape(-1), np.zeros(codes.size % 2, np.uint8))
        packed = (flat[::2] | flat[1::2] << 4).tobytes()
        fresh = self._fresh(name)
        self._graph.initializer.append(helper.make_tensor(fresh, kind, codes.shape, packed, raw=True))
        return fresh

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
        return add_initializer(self._graph, self._fresh(name), np.asarray(array))

    def _node(self, kind: str, inputs: Sequence[str], result: str, domain: str = "", **attributes: Any) -> str:
        fresh = self._fresh(result)
        self.nodes.append(helper.make_node(kind, list(inputs), [fresh], name=fresh, domain=domain, **attributes))
        return fresh


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Packs numbers of 4 bits in pairs along the last axis, the first of a pair in the low bits."""
    if bits == 8:
        return codes.astype(np.uint8)
    pairs = codes.astype(np.uint8).reshape(*codes.shape[:-1], codes.shape[-1] // 2, 2)
    return pairs[..., 0] | pairs[..., 1] << 4
