"""Small models with dimensions that vary, one for each class of op that has a rule for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Graph = tuple[onnx.ModelProto, dict]
_RNG = np.random.default_rng(7)


def _model(
    nodes: list, inputs: dict[str, tuple[list, int]], outputs: list[str], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, kind, shape) for name, (shape, kind) in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _floats(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape, np.float32)


def _one(nodes: list, shape: list, dims: dict, /, **weights: np.ndarray) -> Graph:
    return _model(nodes, {"x": (shape, TensorProto.FLOAT)}, ["y"], weights), dims


_NODE = helper.make_node


def conv() -> Graph:
    """Windows that reach over the end, twice, with a stride."""
    nodes = [
        _NODE("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        _NODE("Relu", ["a"], ["b"]),
        _NODE("Conv", ["b", "v"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]
    dims = {"h": (1, 9), "w": (1, 11)}
    return _one(nodes, [1, 3, "h", "w"], dims, w=_floats(8, 3, 3, 3), v=_floats(8, 8, 3, 3))


def _tiles(shape: list, dims: dict) -> Graph:
    """Convolutions by Winograd's method."""
    nodes = [
        _NODE("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        _NODE("Relu", ["a"], ["b"]),
        _NODE("Conv", ["b", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    return _one(nodes, shape, dims, w=_floats(64, 32, 3, 3) / 17, v=_floats(32, 64, 3, 3) / 24)


def batches_of_tiles() -> Graph:
    """Tiles of images of one size."""
    return _tiles(["n", 32, 20, 24], {"n": (1, 9)})


def rows_of_tiles() -> Graph:
    """Tiles of images of one width."""
    return _tiles([1, 32, "h", 12], {"h": (8, 60)})


def columns_of_tiles() -> Graph:
    """Tiles of images of one height."""
    return _tiles([1, 32, 12, "w"], {"w": (8, 60)})


def depthwise() -> Graph:
    """A depthwise convolution of few rows, scaled by its global average."""
    nodes = [
        _NODE("Conv", ["x", "w"], ["a"], pads=[2, 2, 2, 2], group=8),
        _NODE("GlobalAveragePool", ["a"], ["b"]),
        _NODE("Mul", ["a", "b"], ["y"]),
    ]
    return _one(nodes, [1, 8, 4, "w"], {"w": (1, 13)}, w=_floats(8, 1, 5, 5))


def pools() -> Graph:
    """Poolings, with and without padding."""
    nodes = [
        _NODE("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        _NODE("AveragePool", ["a"], ["y"], kernel_shape=[2, 2], strides=[1, 1]),
    ]
    return _one(nodes, [2, 4, "h", 8], {"h": (3, 12)})


def upsample() -> Graph:
    """A resize to the nearest element, and a transposed convolution."""
    nodes = [
        _NODE("Resize", ["x", "", "s"], ["a"], mode="nearest", coordinate_transformation_mode="asymmetric"),
        _NODE("ConvTranspose", ["a", "w"], ["y"], strides=[2, 2]),
    ]
    return _one(
        nodes, [1, 4, "h", "w"], {"h": (1, 5), "w": (1, 6)}, s=np.array([1, 1, 2, 2], np.float32), w=_floats(4, 3, 2, 2)
    )


def transposed() -> Graph:
    """A transposed convolution whose windows overlap."""
    nodes = [_NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])]
    return _one(nodes, [1, 4, "h", "w"], {"h": (2, 5), "w": (2, 6)}, w=_floats(4, 3, 4, 4))


def softmaxes() -> Graph:
    """Softmax along either of two dimensions that vary."""
    nodes = [
        _NODE("Softmax", ["x"], ["a"], axis=1),
        _NODE("LogSoftmax", ["x"], ["b"], axis=2),
        _NODE("Add", ["a", "b"], ["y"]),
    ]
    return _one(nodes, [2, "n", "m"], {"n": (1, 9), "m": (1, 17)})


def reductions() -> Graph:
    """Sum, product, mean, maximum and minimum over dimensions that vary."""
    nodes = [
        _NODE("ReduceSum", ["x", "axes"], ["a"]),
        _NODE("ReduceProd", ["x"], ["b"], axes=[1]),
        _NODE("ReduceMean", ["x"], ["c"], axes=[0, 1]),
        _NODE("ReduceMax", ["x"], ["d"], axes=[1, 2]),
        _NODE("ReduceMin", ["x"], ["e"], axes=[1]),
        _NODE("Sum", ["a", "b", "c", "d", "e"], ["y"]),
    ]
    return _one(nodes, ["n", "m", 5], {"n": (1, 4), "m": (1, 11)}, axes=np.array([1]))


def products() -> Graph:
    """A product summed over a dimension that varies, and one with a weight."""
    nodes = [
        _NODE("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        _NODE("MatMul", ["t", "x"], ["a"]),
        _NODE("MatMul", ["x", "a"], ["b"]),
        _NODE("MatMul", ["b", "w"], ["y"]),
    ]
    return _one(nodes, ["n", "m", 8], {"n": (1, 3), "m": (1, 19)}, w=_floats(8, 24))


def normalised() -> Graph:
    """Layer normalisation of a variable number of rows."""
    nodes = [
        _NODE("LayerNormalization", ["x", "s", "b"], ["a"]),
        _NODE("Erf", ["a"], ["y"]),
    ]
    return _one(nodes, ["n", "m", 16], {"n": (1, 3), "m": (1, 9)}, s=_floats(16), b=_floats(16))


def attention() -> Graph:
    """Attention to a variable number of keys."""
    return _attention(heads=2, depth=8, lengths=(1, 21))


def attention_to_rounds() -> Graph:
    """Attention whose loop ends with the keys; their maximum number is the depth of a head."""
    return _attention(heads=2, depth=32, lengths=(1, 32))


def attention_in_one_round() -> Graph:
    """Attention to at most one round of keys."""
    return _attention(heads=2, depth=8, lengths=(1, 16))


def attention_of_one_head() -> Graph:
    """Attention of one head, which reads all keys; its depth is their maximum number."""
    return _attention(heads=1, depth=128, lengths=(40, 128))


def attention_of_every_fourth() -> Graph:
    """Attention of few rows: at many sizes, a program for that size alone would compute it op by op."""
    return _attention(heads=2, depth=8, lengths=(8, 24), stride=4)


def _attention(heads: int, depth: int, lengths: tuple[int, int], stride: int = 1) -> Graph:
    """Projections, heads, scores, softmax: attention as models spell it out, with shapes computed from sizes."""
    width = heads * depth
    nodes = [
        _NODE("Slice", ["x", "zero", "most", "one", "stride"], ["rows_in"]),
        _NODE("Shape", ["rows_in"], ["shape"]),
        _NODE("Slice", ["shape", "zero", "two"], ["outer"]),
        _NODE("Concat", ["outer", "heads"], ["split"], axis=0),
        _NODE("Concat", ["outer", "width"], ["joined"], axis=0),
    ]
    for name in "qkv":
        nodes += [
            _NODE("MatMul", ["rows_in", f"w{name}"], [f"{name}0"]),
            _NODE("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            _NODE("Transpose", [f"{name}1"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        _NODE("MatMul", ["q", "k"], ["scores"]),
        _NODE("Mul", ["scores", "scale"], ["scaled"]),
        _NODE("Softmax", ["scaled"], ["weights"], axis=-1),
        _NODE("MatMul", ["weights", "v"], ["heads_out"]),
        _NODE("Transpose", ["heads_out"], ["rows"], perm=[0, 2, 1, 3]),
        _NODE("Reshape", ["rows", "joined"], ["y"]),
    ]
    weights = {f"w{name}": _floats(width, width) / np.float32(width**0.5 / 2) for name in "qkv"}
    numbers = {
        "zero": np.array([0]),
        "two": np.array([2]),
        "heads": np.array([heads, depth]),
        "width": np.array([width]),
    }
    numbers |= {"one": np.array([1]), "most": np.array([1 << 40]), "stride": np.array([stride])}
    scale = np.array(depth**-0.5, np.float32)
    return _one(nodes, ["n", "m", width], {"n": (1, 3), "m": lengths}, scale=scale, **weights, **numbers)


def grouped_attention() -> Graph:
    """Attention in which several heads share keys and values."""
    nodes = [
        _NODE("MatMul", ["x", "w"], ["q"]),
        _NODE("Attention", ["q", "x", "x"], ["y"], q_num_heads=4, kv_num_heads=2),
    ]
    model, dims = _one(nodes, ["n", "m", 16], {"n": (1, 2), "m": (1, 48)}, w=_floats(16, 32))
    model.opset_import[0].version, model.ir_version = 23, 11
    return model, dims


def joined() -> Graph:
    """Concatenation along a dimension that varies, padding, and the last element."""
    nodes = [
        _NODE("Concat", ["x", "c", "x"], ["a"], axis=1),
        _NODE("Pad", ["a", "pads"], ["b"]),
        _NODE("Slice", ["b", "start", "end", "axis"], ["y"]),
    ]
    numbers = {
        "start": np.array([-4]),
        "end": np.array([1 << 40]),
        "axis": np.array([1]),
        "pads": np.array([0, 1, 0, 0, 2, 0]),
    }
    return _one(nodes, [1, "m", 5], {"m": (1, 9)}, c=_floats(1, 2, 5), **numbers)


def reversed_() -> Graph:
    """A reversed slice, and a slice of every second element."""
    nodes = [
        _NODE("Slice", ["x", "start", "end", "axis", "step"], ["a"]),
        _NODE("Slice", ["x", "zero", "all", "axis", "two"], ["b"]),
        _NODE("ReduceSum", ["b", "axis"], ["c"]),
        _NODE("Add", ["a", "c"], ["y"]),
    ]
    numbers = {"start": np.array([-1]), "end": np.array([-(1 << 40)]), "axis": np.array([0]), "step": np.array([-1])}
    more = {"zero": np.array([0]), "all": np.array([1 << 40]), "two": np.array([2])}
    return _one(nodes, ["m", 6], {"m": (1, 13)}, **numbers, **more)


def merged() -> Graph:
    """Two dimensions that vary, merged into the rows of a product and split again."""
    nodes = [
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Reshape", ["x", "rows"], ["a"]),
        _NODE("MatMul", ["a", "w"], ["b"]),
        _NODE("Softmax", ["b"], ["c"], axis=0),
        _NODE("Reshape", ["c", "shape"], ["y"]),
    ]
    return _one(nodes, ["n", "m", 8], {"n": (1, 4), "m": (1, 7)}, rows=np.array([-1, 8]), w=_floats(8, 8))


def embedding() -> Graph:
    """Look-ups by an input, and by positions up to a size."""
    nodes = [
        _NODE("Gather", ["table", "x"], ["a"]),
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Gather", ["shape", "one"], ["length"], axis=0),
        _NODE("Range", ["zero", "length", "step"], ["positions"]),
        _NODE("Gather", ["places", "positions"], ["b"]),
        _NODE("ReduceMax", ["x"], ["last"], axes=[1], keepdims=1),
        _NODE("Gather", ["table", "last"], ["c"]),
        _NODE("Sum", ["a", "b", "c"], ["y"]),
    ]
    numbers = {"one": np.array(1), "zero": np.array(0), "step": np.array(1)}
    weights = {"table": _floats(10, 6), "places": _floats(12, 6), **numbers}
    return _model(nodes, {"x": (["n", "m"], TensorProto.INT64)}, ["y"], weights), {"n": (1, 3), "m": (1, 12)}


GRAPHS: tuple[Callable[[], Graph], ...] = (
    conv,
    batches_of_tiles,
    rows_of_tiles,
    columns_of_tiles,
    depthwise,
    pools,
    upsample,
    transposed,
    softmaxes,
    reductions,
    products,
    normalised,
    attention,
    attention_to_rounds,
    attention_in_one_round,
    attention_of_one_head,
    attention_of_every_fourth,
    grouped_attention,
    joined,
    reversed_,
    merged,
    embedding,
)
