"""The kernels that are measured separately: shapes from real models, and their cost.

A kernel is an ONNX model of one operator (attention: of five) for the systems that run ONNX; numpy and torch have an
equivalent function for some. Kernels are float32, except for weights of few bits. Weights are constants, as in a
model, so that a system may pack them in advance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .few_bits import few_bits
from .kernel import Function, Kernel, Shape
from .selecting import compress, non_max_suppression, nonzero, unique


def gemm(m: int, n: int, k: int) -> Kernel:
    """[m, k] @ constant [k, n]."""
    family = "gemv" if m == 1 else "gemm"
    return Kernel(
        f"{family} {m}x{n}x{k}",
        family,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (m, k)},
        (m, n),
        2.0 * m * n * k,
        lambda torch: torch.matmul,
        {"w": (k, n)},
        np.matmul,
    )


def batched_gemm(batch: int, m: int, n: int, k: int) -> Kernel:
    """[batch, m, k] @ [batch, k, n], both computed by the model."""
    name = f"{batch}x{m}x{n}x{k}" if batch > 1 else f"{m}x{n}x{k} of two inputs"
    shapes = {"x": (batch, m, k), "z": (batch, k, n)}
    output = (batch, m, n)
    if batch == 1:
        shapes, output = {name: shape[1:] for name, shape in shapes.items()}, output[1:]
    return Kernel(
        f"{'batched ' if batch > 1 else ''}gemm {name}",
        "batched gemm" if batch > 1 else "gemm",
        [helper.make_node("MatMul", ["x", "z"], ["y"])],
        shapes,
        output,
        2.0 * batch * m * n * k,
        numpy=np.matmul,
        torch=lambda torch: torch.matmul,
    )


def conv(
    channels: int, filters: int, size: int, kernel: int, stride: int = 1, groups: int = 1, batch: int = 1
) -> Kernel:
    """A convolution of [batch, channels, size, size] with bias, padded so that stride 1 keeps the size."""
    pad, out = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1
    kind = "depthwise" if groups == channels else "grouped" if groups > 1 else "strided" if stride > 1 else "conv"
    name = f"{kind} {kernel}x{kernel} {channels}->{filters} {size}x{size}" + (f" /{stride}" if stride > 1 else "")
    return Kernel(
        name + (f" g{groups}" if kind == "grouped" else "") + (f" of {batch}" if batch > 1 else ""),
        f"conv {kernel}x{kernel}" if kind == "conv" else f"{kind} conv",
        [
            helper.make_node(
                "Conv",
                ["x", "w", "b"],
                ["y"],
                kernel_shape=[kernel, kernel],
                pads=[pad] * 4,
                strides=[stride, stride],
                group=groups,
            )
        ],
        {"x": (batch, channels, size, size)},
        (batch, filters, out, out),
        2.0 * batch * filters * out * out * channels // groups * kernel * kernel,
        lambda torch: lambda x, w, b: torch.conv2d(x, w, b, stride, pad, 1, groups),
        {"w": (filters, channels // groups, kernel, kernel), "b": (filters,)},
    )


def softmax(*shape: int) -> Kernel:
    """Softmax over the last axis."""
    return Kernel(
        f"softmax {_text(shape)}",
        "softmax",
        [helper.make_node("Softmax", ["x"], ["y"], axis=-1)],
        {"x": shape},
        shape,
        5.0 * math.prod(shape),
        torch=lambda torch: lambda x: torch.softmax(x, -1),
    )


def layer_norm(*shape: int) -> Kernel:
    """Layer normalisation over the last axis, with scale and bias."""
    last = shape[-1:]
    return Kernel(
        f"layer norm {_text(shape)}",
        "layer norm",
        [helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"], axis=-1, epsilon=1e-5)],
        {"x": shape},
        shape,
        7.0 * math.prod(shape),
        lambda torch: lambda x, scale, bias: torch.layer_norm(x, last, scale, bias, 1e-5),
        {"scale": last, "bias": last},
    )


def gelu(*shape: int) -> Kernel:
    """GELU by its formula with erf."""
    return Kernel(
        f"gelu {_text(shape)}",
        "gelu",
        [helper.make_node("Gelu", ["x"], ["y"])],
        {"x": shape},
        shape,
        10.0 * math.prod(shape),
        torch=lambda torch: torch.nn.functional.gelu,
    )


def elementwise(op: str, *shape: int) -> Kernel:
    """`add` or `mul` of two tensors."""
    return Kernel(
        f"{op} {_text(shape)}",
        "elementwise",
        [helper.make_node(op.capitalize(), ["x", "z"], ["y"])],
        {"x": shape, "z": shape},
        shape,
        1.0 * math.prod(shape),
        numpy={"add": np.add, "mul": np.multiply}[op],
        torch=lambda torch: getattr(torch, op),
    )


def attention(batch: int, heads: int, length: int, size: int) -> Kernel:
    """softmax(q @ k.T / sqrt(size)) @ v, of [batch, heads, length, size]."""
    shape = (batch, heads, length, size)
    scale = numpy_helper.from_array(np.array(1 / math.sqrt(size), np.float32))
    scores = batch * heads * length * length
    return Kernel(
        f"attention {_text(shape)}",
        "attention",
        [
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "kt"], ["products"]),
            helper.make_node("Constant", [], ["scale"], value=scale),
            helper.make_node("Mul", ["products", "scale"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
            helper.make_node("MatMul", ["shares", "v"], ["y"]),
        ],
        {"q": shape, "k": shape, "v": shape},
        shape,
        4.0 * scores * size + 6.0 * scores,
        torch=lambda torch: torch.nn.functional.scaled_dot_product_attention,
    )


def transpose(shape: Shape, order: Shape) -> Kernel:
    """A transpose that moves data."""
    return Kernel(
        f"transpose {_text(shape)} to {''.join(map(str, order))}",
        "transpose",
        [helper.make_node("Transpose", ["x"], ["y"], perm=order)],
        {"x": shape},
        tuple(shape[axis] for axis in order),
        0.0,
        numpy=lambda x: np.ascontiguousarray(x.transpose(order)),
        torch=lambda torch: lambda x: x.permute(order).contiguous(),
    )


def pool(kind: str, channels: int, size: int, kernel: int, stride: int) -> Kernel:
    """Max or average pooling; global if the window is as large as the image."""
    pad = kernel // 2 if kernel % 2 and kernel < size else 0
    out = (size + 2 * pad - kernel) // stride + 1
    window: dict[str, Any] = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": [pad] * 4}
    if kind == "average":
        window["count_include_pad"] = 1
    call = {"max": "max_pool2d", "average": "avg_pool2d"}[kind]
    return Kernel(
        f"{kind} pool {kernel}x{kernel} {channels} {size}x{size} /{stride}",
        "pooling",
        [helper.make_node({"max": "MaxPool", "average": "AveragePool"}[kind], ["x"], ["y"], **window)],
        {"x": (1, channels, size, size)},
        (1, channels, out, out),
        1.0 * channels * out * out * kernel * kernel,
        torch=lambda torch: lambda x: getattr(torch.nn.functional, call)(x, kernel, stride, pad),
    )


def conv_along(channels: int, filters: int, sizes: Shape, kernel: int, dilation: int = 1) -> Kernel:
    """A convolution of [1, channels, *sizes] over sequences or volumes with bias, padded so that the sizes are kept."""
    count, pad = len(sizes), (kernel - 1) * dilation // 2
    name = f"conv{count}d {'x'.join([str(kernel)] * count)} {channels}->{filters} {_text(sizes)}"
    call = {1: "conv1d", 3: "conv3d"}[count]
    return Kernel(
        name + (f" dilated by {dilation}" if dilation > 1 else ""),
        f"conv{count}d",
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[pad] * 2 * count, dilations=[dilation] * count)],
        {"x": (1, channels, *sizes)},
        (1, filters, *sizes),
        2.0 * filters * math.prod(sizes) * channels * kernel**count,
        lambda torch: lambda x, w, b: getattr(torch, call)(x, w, b, 1, pad, dilation),
        {"w": (filters, channels, *[kernel] * count), "b": (filters,)},
    )


def top_k(rows: int, columns: int, k: int) -> Kernel:
    """The largest elements of each row, in order."""
    return Kernel(
        f"top {k} {rows}x{columns}",
        "selection",
        [_number("k", np.array([k])), helper.make_node("TopK", ["x", "k"], ["y", "at"])],
        {"x": (rows, columns)},
        (rows, k),
        1.0 * rows * columns,
        torch=lambda torch: lambda x: torch.topk(x, k)[0],
    )


def scatter(count: int, size: int, reduction: str = "none") -> Kernel:
    """Replaces some elements of a vector, or adds to them."""
    at = np.random.default_rng(0).permutation(size)[:count]

    def of_torch(torch: Any) -> Function:
        indices = torch.from_numpy(at)
        if reduction == "add":
            return lambda x, z: x.scatter_add(0, indices, z)
        return lambda x, z: x.scatter(0, indices, z)

    return Kernel(
        f"scatter {'' if reduction == 'none' else reduction + ' '}{count} into {size}",
        "scatter",
        [_number("at", at), helper.make_node("ScatterElements", ["x", "at", "z"], ["y"], reduction=reduction)],
        {"x": (size,), "z": (count,)},
        (size,),
        1.0 * count,
        torch=of_torch,
    )


def scatter_rows(edges: int, nodes: int, features: int) -> Kernel:
    """Adds the rows of edges to those of the nodes where they end, as graph networks do."""
    at = np.random.default_rng(0).integers(0, nodes, (edges, 1))

    def of_torch(torch: Any) -> Function:
        indices = torch.from_numpy(at[:, 0])
        return lambda x, z: x.index_add(0, indices, z)

    return Kernel(
        f"scatter add {edges} rows of {features} into {nodes}",
        "scatter",
        [_number("at", at), helper.make_node("ScatterND", ["x", "at", "z"], ["y"], reduction="add")],
        {"x": (nodes, features), "z": (edges, features)},
        (nodes, features),
        1.0 * edges * features,
        torch=of_torch,
    )


def _number(name: str, value: np.ndarray) -> onnx.NodeProto:
    """Returns a constant of integers."""
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value.astype(np.int64)))


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


@functools.cache
def table() -> dict[str, Kernel]:
    """Returns all kernels by name.

    The sizes are those of MiniLM, BERT, ResNet-50, VGG, Inception, MobileNet and PP-OCR, of networks over sequences,
    videos and graphs, and of samplers.
    """
    kernels = [
        *(gemm(size, size, size) for size in (256, 384, 512, 768, 1024, 1536, 2048)),
        *(gemm(rows, *dims) for rows in (16, 128, 512) for dims in ((384, 384), (1536, 384), (384, 1536))),
        *(batched_gemm(1, size, size, size) for size in (256, 512, 1024)),
        batched_gemm(12, 128, 128, 32),
        batched_gemm(12, 128, 32, 128),
        batched_gemm(12, 512, 512, 64),
        batched_gemm(96, 128, 128, 32),
        gemm(1, 384, 1536),
        gemm(1, 1000, 2048),
        gemm(1, 4096, 4096),
        *(few_bits(rows, 32000, 4096) for rows in (1, 4, 8)),
        few_bits(1, 32000, 4096, level=0),
        few_bits(512, 4096, 4096),
        few_bits(512, 4096, 4096, block=128),
        conv(64, 256, 56, 1),
        conv(256, 64, 56, 1),
        conv(512, 128, 28, 1),
        conv(1024, 256, 14, 1),
        conv(2048, 512, 7, 1),
        conv(64, 64, 224, 3),
        conv(64, 64, 56, 3),
        conv(128, 128, 28, 3),
        conv(256, 256, 14, 3),
        conv(512, 512, 7, 3),
        conv(24, 24, 160, 3),
        conv(16, 32, 28, 5),
        conv(48, 128, 14, 5),
        conv(32, 32, 112, 3, 1, 32),
        conv(192, 192, 56, 3, 1, 192),
        conv(96, 96, 112, 3, 2, 96),
        conv(240, 240, 28, 5, 1, 240),
        conv(128, 128, 56, 3, 2),
        conv(256, 512, 56, 1, 2),
        conv(128, 128, 56, 3, 1, 32),
        conv(240, 240, 28, 1, 1, 3),
        conv(3, 64, 224, 7, 2),
        conv(96, 576, 14, 1, batch=4),
        conv(96, 96, 112, 3, 2, 96, batch=4),
        softmax(1, 12, 128, 128),
        softmax(1, 12, 512, 512),
        softmax(80, 6625),
        softmax(8192, 1024),
        layer_norm(1, 128, 384),
        layer_norm(1, 512, 768),
        layer_norm(16384, 768),
        gelu(1, 128, 1536),
        gelu(1, 512, 3072),
        gelu(4096, 3072),
        elementwise("add", 1, 256, 56, 56),
        elementwise("mul", 1, 128, 384),
        elementwise("add", 4096, 2048),
        elementwise("mul", 4096, 2048),
        attention(1, 12, 16, 32),
        attention(1, 12, 128, 32),
        attention(1, 12, 512, 32),
        attention(8, 12, 128, 32),
        attention(1, 12, 384, 64),
        transpose((1, 128, 12, 32), (0, 2, 1, 3)),
        transpose((1, 64, 112, 112), (0, 2, 3, 1)),
        transpose((1, 56, 56, 256), (0, 3, 1, 2)),
        transpose((2048, 2048), (1, 0)),
        pool("max", 64, 112, 3, 2),
        pool("max", 64, 224, 2, 2),
        pool("average", 192, 28, 3, 1),
        pool("average", 2048, 7, 7, 1),
        conv_along(64, 64, (2000,), 3, 4),
        conv_along(64, 64, (8, 28, 28), 3),
        conv_along(256, 256, (2, 14, 14), 3),
        top_k(1, 20_000, 50),
        top_k(8, 20_000, 50),
        top_k(1, 100_000, 1000),
        scatter(64, 100_000),
        scatter(64, 100_000, "add"),
        scatter_rows(10_000, 1_000, 64),
        *(nonzero(1 << 20, above) for above in (0, 2)),
        nonzero(100, 0),
        *(compress(1 << 20, above) for above in (0, 2)),
        compress(100, 0),
        *(unique(10_000, scale) for scale in (10, 10_000)),
        non_max_suppression(8400, 80, 2.5),
    ]
    return {kernel.name: kernel for kernel in kernels}


def find(name: str) -> Kernel | None:
    """Returns the kernel of a name, or None."""
    return table().get(name)


def chosen(texts: Sequence[str]) -> list[Kernel]:
    """Returns the kernels whose names start with one of `texts`; all kernels if there are no texts."""
    return [kernel for kernel in table().values() if not texts or kernel.name.startswith(tuple(texts))]
