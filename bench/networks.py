"""Networks of common classes as ONNX files, made by code with random weights.

The classes are those whose speed depends on the shapes of few kernels: residual, grouped and depthwise convolutions,
dilated 1-d and 3-d convolutions, and single nodes that select or scatter. Batch normalisations are already folded into
the convolutions, as exporters for inference leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 18
_OUTPUT = "y"


@dataclass
class _Graph:
    """A graph under construction, with one input `x` of images, volumes or sequences in planes.

    Attributes:
        shape: the shape of the input.
        nodes: the nodes so far.
        weights: the parameters so far.
    """

    shape: Sequence[int]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.shape) - 2

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns the name of its output."""
        output = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def constant(self, value: Any, dtype: type = np.float32) -> str:
        """Adds a parameter; returns its name."""
        name = f"parameter_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def conv(
        self, x: str, source: int, target: int, kernel: int, stride: int = 1, groups: int = 1, dilation: int = 1
    ) -> str:
        """Adds a convolution with bias that keeps the size up to its stride."""
        shape = (target, source // groups, *[kernel] * self.rank)
        weight = self._random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return self.op(
            "Conv",
            x,
            self.constant(weight),
            self.constant(self._random.standard_normal(target)),
            group=groups,
            strides=[stride] * self.rank,
            dilations=[dilation] * self.rank,
            pads=[(kernel - 1) * dilation // 2] * 2 * self.rank,
        )

    def swish(self, x: str) -> str:
        """Adds x * sigmoid(x)."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def hard_swish(self, x: str) -> str:
        """Adds x * hard_sigmoid(x)."""
        return self.op("HardSwish", x)

    def relu6(self, x: str) -> str:
        """Adds the clamp to 0 .. 6."""
        return self.op("Clip", x, self.constant(0), self.constant(6))

    def relu(self, x: str) -> str:
        """Adds the clamp at 0."""
        return self.op("Relu", x)

    def squeeze_excite(self, x: str, channels: int, squeezed: int, act: Act, gate: str) -> str:
        """Adds the scaling of channels by a function of their means."""
        mean = self.op("GlobalAveragePool", x)
        scale = self.conv(act(self.conv(mean, channels, squeezed, 1)), squeezed, channels, 1)
        return self.op("Mul", x, self.op(gate, scale))

    def write(self, result: str, path: Path) -> Path:
        """Writes the file, whose output is the mean of a value over its spatial dimensions."""
        self.nodes.append(helper.make_node("GlobalAveragePool", [result], [_OUTPUT]))
        takes = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        return _save(path, self.nodes, [takes], [_OUTPUT], self.weights)


Act = Callable[[str], str]
_Make = Callable[[Path], Path]


@dataclass(frozen=True)
class Network:
    """A network of the list.

    Attributes:
        make: writes the file at a path, which it returns.
        bounds: the numbers of positions that the components of its input `indices` choose from, if it has one.
    """

    make: _Make
    bounds: Sequence[int] = ()


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    takes: Sequence[onnx.ValueInfoProto],
    gives: Iterable[str],
    weights: Sequence[onnx.TensorProto] = (),
) -> Path:
    outputs = [onnx.ValueInfoProto(name=name) for name in gives]
    graph = helper.make_graph(nodes, path.stem, takes, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def _inverted_residuals(graph: _Graph, x: str, blocks: Iterable[_Inverted]) -> str:
    """Adds blocks of an expansion, a depthwise convolution, and a projection."""
    for block in blocks:
        act, wide = getattr(graph, block.act), block.wide
        y = x if wide == block.source else act(graph.conv(x, block.source, wide, 1))
        y = act(graph.conv(y, wide, wide, block.kernel, block.stride, groups=wide))
        if block.squeezed:
            y = graph.squeeze_excite(y, wide, block.squeezed, graph.relu, block.gate)
        y = graph.conv(y, wide, block.target, 1)
        x = graph.op("Add", x, y) if block.stride == 1 and block.source == block.target else y
    return x


@dataclass(frozen=True)
class _Inverted:
    source: int
    wide: int
    target: int
    kernel: int
    stride: int
    act: str
    squeezed: int = 0
    gate: str = "HardSigmoid"


def _mobilenet_v2(batch: int) -> _Make:
    def make(path: Path) -> Path:
        graph = _Graph((batch, 3, 224, 224))
        x, source, blocks = graph.relu6(graph.conv("x", 3, 32, 3, 2)), 32, []
        rows = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        for factor, target, repeats, stride in rows:
            for number in range(repeats):
                blocks.append(_Inverted(source, source * factor, target, 3, stride if number == 0 else 1, "relu6"))
                source = target
        x = graph.relu6(graph.conv(_inverted_residuals(graph, x, blocks), 320, 1280, 1))
        return graph.write(x, path)

    return make


def _mobilenet_v3(batch: int) -> _Make:
    """The small variant, with squeeze-excite in most blocks."""

    def make(path: Path) -> Path:
        graph = _Graph((batch, 3, 224, 224))
        x = graph.hard_swish(graph.conv("x", 3, 16, 3, 2))
        blocks = (
            _Inverted(16, 16, 16, 3, 2, "relu", 8),
            _Inverted(16, 72, 24, 3, 2, "relu"),
            _Inverted(24, 88, 24, 3, 1, "relu"),
            _Inverted(24, 96, 40, 5, 2, "hard_swish", 24),
            _Inverted(40, 240, 40, 5, 1, "hard_swish", 64),
            _Inverted(40, 240, 40, 5, 1, "hard_swish", 64),
            _Inverted(40, 120, 48, 5, 1, "hard_swish", 32),
            _Inverted(48, 144, 48, 5, 1, "hard_swish", 40),
            _Inverted(48, 288, 96, 5, 2, "hard_swish", 72),
            _Inverted(96, 576, 96, 5, 1, "hard_swish", 144),
            _Inverted(96, 576, 96, 5, 1, "hard_swish", 144),
        )
        x = _inverted_residuals(graph, x, blocks)
        return graph.write(graph.hard_swish(graph.conv(x, 96, 576, 1)), path)

    return make


def _efficientnet(batch: int, size: int) -> _Make:
    """The variant B0."""

    def make(path: Path) -> Path:
        graph = _Graph((batch, 3, size, size))
        x, source, blocks = graph.swish(graph.conv("x", 3, 32, 3, 2)), 32, []
        rows = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5))
        for factor, target, repeats, stride, kernel in (*rows, (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
            for number in range(repeats):
                step = stride if number == 0 else 1
                wide, few = source * factor, max(1, source // 4)
                blocks.append(_Inverted(source, wide, target, kernel, step, "swish", few, "Sigmoid"))
                source = target
        x = graph.swish(graph.conv(_inverted_residuals(graph, x, blocks), 320, 1280, 1))
        return graph.write(x, path)

    return make


def _resnet(depths: Sequence[int], shape: Sequence[int], bottleneck: bool, groups: int = 1, width: int = 64) -> _Make:
    """A residual network; the input may be of images or volumes."""

    def make(path: Path) -> Path:
        graph = _Graph(shape)
        rank, factor = graph.rank, 4 if bottleneck else 1
        x = graph.relu(graph.conv("x", shape[1], 64, 7 if rank == 2 else 3, 2))
        if rank == 2:
            x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        source = 64
        for stage, depth in enumerate(depths):
            target, middle = 64 * factor << stage, width << stage
            for number in range(depth):
                stride = 2 if number == 0 and stage else 1
                if bottleneck:
                    y = graph.relu(graph.conv(x, source, middle, 1))
                    y = graph.relu(graph.conv(y, middle, middle, 3, stride, groups))
                    y = graph.conv(y, middle, target, 1)
                else:
                    y = graph.relu(graph.conv(x, source, middle, 3, stride))
                    y = graph.conv(y, middle, target, 3)
                same = x if source == target and stride == 1 else graph.conv(x, source, target, 1, stride)
                x, source = graph.relu(graph.op("Add", y, same)), target
        return graph.write(x, path)

    return make


def _temporal(channels: int, length: int, kernel: int, layers: int, batch: int = 1) -> _Make:
    """A stack of residual blocks of dilated 1-d convolutions."""

    def make(path: Path) -> Path:
        graph = _Graph((batch, channels, length))
        x = "x"
        for layer in range(layers):
            y = graph.relu(graph.conv(x, channels, channels, kernel, dilation=1 << layer))
            y = graph.relu(graph.conv(y, channels, channels, kernel, dilation=1 << layer))
            x = graph.op("Add", x, y)
        return graph.write(x, path)

    return make


def _wavenet(channels: int, length: int, layers: int) -> _Make:
    """A stack of gated dilated convolutions with sums of their outputs."""

    def make(path: Path) -> Path:
        graph = _Graph((1, channels, length))
        x, skipped = "x", ""
        for layer in range(layers):
            gates = graph.conv(x, channels, 2 * channels, 3, dilation=1 << layer)
            sizes = graph.constant([channels, channels], np.int64)
            names = [f"half_{layer}_{number}" for number in range(2)]
            graph.nodes.append(helper.make_node("Split", [gates, sizes], names, axis=1))
            y = graph.op("Mul", graph.op("Tanh", names[0]), graph.op("Sigmoid", names[1]))
            skip = graph.conv(y, channels, channels, 1)
            skipped = graph.op("Add", skipped, skip) if skipped else skip
            x = graph.op("Add", x, graph.conv(y, channels, channels, 1))
        return graph.write(graph.relu(skipped), path)

    return make


def _volumes(shape: Sequence[int], channels: Sequence[int]) -> _Make:
    """A stack of 3-d convolutions that halves sizes between pairs."""

    def make(path: Path) -> Path:
        graph = _Graph(shape)
        x, source = graph.relu(graph.conv("x", shape[1], channels[0], 3)), channels[0]
        for target in channels[1:]:
            x = graph.relu(graph.conv(x, source, target, 3, 2))
            x, source = graph.relu(graph.conv(x, target, target, 3)), target
        return graph.write(x, path)

    return make


def _top(shape: Sequence[int], count: int, axis: int = -1, largest: int = 1) -> _Make:
    def make(path: Path) -> Path:
        node = helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=axis, largest=largest)
        takes = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        return _save(path, [node], [takes], ["values", "indices"], [numpy_helper.from_array(np.array([count]), "k")])

    return make


def _scatter(op_type: str, data: Sequence[int], indices: Sequence[int], updates: Sequence[int], **how: Any) -> Network:
    def make(path: Path) -> Path:
        node = helper.make_node(op_type, ["data", "indices", "updates"], [_OUTPUT], **how)
        takes = [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in (
                ("data", TensorProto.FLOAT, data),
                ("indices", TensorProto.INT64, indices),
                ("updates", TensorProto.FLOAT, updates),
            )
        ]
        return _save(path, [node], takes, [_OUTPUT])

    return Network(make, data[: indices[-1]] if op_type == "ScatterND" else [data[how["axis"]]])


_MADE: dict[str, _Make | Network] = {
    **{f"mobilenet-v2-{batch}": _mobilenet_v2(batch) for batch in (1, 4)},
    **{f"mobilenet-v3-{batch}": _mobilenet_v3(batch) for batch in (1, 8)},
    "efficientnet-1": _efficientnet(1, 224),
    "efficientnet-2x160": _efficientnet(2, 160),
    "resnet18": _resnet((2, 2, 2, 2), (1, 3, 224, 224), bottleneck=False),
    "resnet18-4x112": _resnet((2, 2, 2, 2), (4, 3, 112, 112), bottleneck=False),
    "resnet50": _resnet((3, 4, 6, 3), (1, 3, 224, 224), bottleneck=True),
    "resnext50": _resnet((3, 4, 6, 3), (1, 3, 224, 224), bottleneck=True, groups=32, width=128),
    "resnet3d": _resnet((1, 1, 1, 1), (1, 3, 8, 56, 56), bottleneck=False),
    "volumes-16x56x56": _volumes((1, 3, 16, 56, 56), (16, 32, 64)),
    "volumes-32x32x32": _volumes((1, 1, 32, 32, 32), (24, 48, 96)),
    "temporal-64x1000": _temporal(64, 1000, 3, 6),
    "temporal-32x400": _temporal(32, 400, 3, 5, batch=4),
    "temporal-100x3000": _temporal(100, 3000, 5, 4),
    "wavenet-48x2000": _wavenet(48, 2000, 8),
    "top-50-of-20000": _top((1, 20000), 50),
    "top-5-of-64x1000": _top((64, 1000), 5),
    "top-300-of-8400x4": _top((1, 8400, 4), 300, axis=1),
    "top-1000-of-100000": _top((1, 100000), 1000),
    "top-least-16-of-32x2048": _top((32, 2048), 16, largest=0),
    "scatter-64x8-into-100000x8": _scatter("ScatterElements", (100000, 8), (64, 8), (64, 8), axis=0),
    "scatter-add-rows-64": _scatter("ScatterND", (2000, 64), (8000, 1), (8000, 64), reduction="add"),
    "scatter-add-rows-16": _scatter("ScatterND", (5000, 16), (20000, 1), (20000, 16), reduction="add"),
    "scatter-add-elements": _scatter("ScatterElements", (2000, 32), (8000, 32), (8000, 32), axis=0, reduction="add"),
    "scatter-rows-into-512x768": _scatter("ScatterND", (1, 512, 768), (1, 8, 2), (1, 8, 768)),
}

NETWORKS = {name: made if isinstance(made, Network) else Network(made) for name, made in _MADE.items()}
