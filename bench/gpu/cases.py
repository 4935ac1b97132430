"""The cases that are checked and timed on a GPU: kernels of one op or two, and models."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
_KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_OPSET = 23
TOLERANCES = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2}
"""Largest allowed difference, relative to the largest result, by element type."""


@dataclass(frozen=True)
class GpuCase:
    """A kernel to check or time.

    Attributes:
        name: the name in tables.
        make: creates the ONNX model.
        dtype: the element type.
        peer: name of the equivalent function in `peers.py`.
        flops: floating-point operations of a call.
        nbytes: bytes that a call must move at least.
        timed: whether it is only timed, with the peer's result as reference; else it is checked against the CPU.
    """

    name: str
    make: Callable[[], onnx.ModelProto]
    dtype: str
    peer: str
    flops: int = 0
    nbytes: int = 0
    timed: bool = False


def checked() -> list[GpuCase]:
    """Returns small cases, whose results are compared with the CPU's."""
    cases = []
    for dtype in _KINDS:
        cases += [product(64, 96, 80, dtype), product(1, 512, 256, dtype), product(256, 256, 256, dtype)]
    cases += [rows("softmax", (33, 1000)), rows("layer_norm", (64, 384)), rows("gelu", (50, 333))]
    for dtype in _KINDS:
        cases += [attention(2, 4, 200, depth, dtype, causal=causal) for depth, causal in ((64, False), (128, True))]
    cases += [decoding(2, 4, 1500, 64, dtype) for dtype in _KINDS]
    return [*cases, transpose((96, 130))]


def timed() -> list[GpuCase]:
    """Returns large cases, which are timed."""
    squares = [(dtype, size) for dtype in ("bfloat16", "float16") for size in (4096, 8192)]
    cases = [product(size, size, size, dtype, timed=True) for dtype, size in squares]
    cases += [product(4096, 4096, 4096, "float32", timed=True), product(16, 4096, 4096, "bfloat16", timed=True)]
    for depth, length, causal in itertools.product((64, 128), (2048, 4096, 8192, 16384), (False, True)):
        cases.append(attention(4, 16, length, depth, "bfloat16", causal=causal, timed=True))
    cases += [decoding(batch, 32, 16384, 128, "bfloat16", timed=True) for batch in (1, 8)]
    cases += [rows(kind, (16384, 4096), timed=True) for kind in ("softmax", "layer_norm", "gelu")]
    return [*cases, transpose((8192, 8192), timed=True)]


def product(rows_: int, inner: int, columns: int, dtype: str, *, timed: bool = False) -> GpuCase:
    """A matrix product of two inputs."""
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    shapes = {"a": (rows_, inner), "b": (inner, columns)}
    flops = 2 * rows_ * inner * columns
    nbytes = _BYTES[dtype] * (rows_ * inner + inner * columns + rows_ * columns)
    name = f"matmul-{dtype}-{rows_}x{inner}x{columns}"
    make = functools.partial(_model, nodes, shapes, {"y": (rows_, columns)}, dtype)
    return GpuCase(name, make, dtype, "matmul", flops, nbytes, timed)


def rows(kind: str, shape: Shape, *, timed: bool = False) -> GpuCase:
    """Softmax, layer normalisation or GELU over the last dimension, in float32."""
    constants = {"scale": np.linspace(0.5, 1.5, shape[-1], dtype=np.float32), "shift": np.ones(shape[-1], np.float32)}
    node, weights = {
        "softmax": (helper.make_node("Softmax", ["x"], ["y"], axis=-1), {}),
        "layer_norm": (helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["y"], axis=-1), constants),
        "gelu": (helper.make_node("Gelu", ["x"], ["y"]), {}),
    }[kind]
    name = f"{kind}-{'x'.join(map(str, shape))}"
    make = functools.partial(_model, [node], {"x": shape}, {"y": shape}, "float32", weights)
    return GpuCase(name, make, "float32", kind, 0, 8 * math.prod(shape), timed)


def transpose(shape: tuple[int, int], *, timed: bool = False) -> GpuCase:
    """The transpose of a matrix of float32."""
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    make = functools.partial(_model, [node], {"x": shape}, {"y": shape[::-1]}, "float32")
    name = f"transpose-{shape[0]}x{shape[1]}"
    return GpuCase(name, make, "float32", "transpose", 0, 8 * math.prod(shape), timed)


def attention(
    batch: int, heads: int, length: int, depth: int, dtype: str, *, causal: bool = False, timed: bool = False
) -> GpuCase:
    """Attention with as many queries as keys; a causal query attends to the keys up to its own position."""
    shape = batch, heads, length, depth
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))
    make = functools.partial(_model, [node], dict.fromkeys("qkv", shape), {"y": shape}, dtype)
    flops = 4 * batch * heads * length * length * depth // (1 + causal)
    nbytes = 4 * _BYTES[dtype] * math.prod(shape)
    kind = "causal_attention" if causal else "attention"
    return GpuCase(f"{kind}-{dtype}-{length}-d{depth}", make, dtype, kind, flops, nbytes, timed)


def decoding(batch: int, heads: int, keys: int, depth: int, dtype: str, *, timed: bool = False) -> GpuCase:
    """Attention of one query to many keys."""
    query, past = (batch, heads, 1, depth), (batch, heads, keys, depth)
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    make = functools.partial(_model, [node], {"q": query, "k": past, "v": past}, {"y": query}, dtype)
    nbytes = 2 * _BYTES[dtype] * (math.prod(query) + math.prod(past))
    name = f"decoding-{dtype}-{batch}x{heads}x{keys}-d{depth}"
    return GpuCase(name, make, dtype, "attention", 4 * math.prod(past), nbytes, timed)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Shape],
    outputs: dict[str, Shape],
    dtype: str,
    weights: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    takes, gives = (
        [helper.make_tensor_value_info(name, _KINDS[dtype], shape) for name, shape in group.items()]
        for group in (inputs, outputs)
    )
    held = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "case", takes, gives, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)
