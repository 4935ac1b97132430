"""More small models with dimensions that vary: loops, resizes, norms, and data movement."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .graphs import Graph, _floats, _one

_NODE = helper.make_node
_IMAGE = {"h": (1, 7), "w": (1, 9)}


def layers() -> Graph:
    """Recurrent layers over time: one in both directions, and one backwards."""
    nodes = [
        _NODE("LSTM", ["x", "w0", "r0", "b0"], ["a", "h", "c"], hidden_size=4, direction="bidirectional"),
        _NODE("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        _NODE("Reshape", ["b", "flat"], ["d"]),
        _NODE("GRU", ["d", "w1", "r1"], ["e", "f"], hidden_size=3, linear_before_reset=1, direction="reverse"),
        _NODE("Squeeze", ["e", "one"], ["y"]),
    ]
    weights = {
        "w0": _floats(2, 16, 3),
        "r0": _floats(2, 16, 4),
        "b0": _floats(2, 32),
        "w1": _floats(1, 9, 8),
        "r1": _floats(1, 9, 3),
    }
    numbers = {"flat": np.array([0, 0, -1]), "one": np.array([1])}
    return _one(nodes, ["t", "n", 3], {"t": (1, 12), "n": (1, 3)}, **weights, **numbers)


def loops() -> Graph:
    """A scan over a dimension that varies, and a branch."""
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("s", "v", "t", "o")]
    step = helper.make_graph([_NODE("Add", ["s", "v"], ["t"]), _NODE("Tanh", ["t"], ["o"])], "step", row[:2], row[2:])
    out = [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["t", 3])]
    branches = [helper.make_graph([_NODE(kind, ["a"], ["z"])], kind, [], out) for kind in ("Neg", "Exp")]
    nodes = [
        _NODE("Scan", ["start", "x"], ["last", "a"], body=step, num_scan_inputs=1),
        _NODE("ReduceSum", ["last"], ["total"], keepdims=0),
        _NODE("Greater", ["total", "zero"], ["is_great"]),
        _NODE("If", ["is_great"], ["b"], then_branch=branches[0], else_branch=branches[1]),
        _NODE("Add", ["b", "last"], ["y"]),
    ]
    return _one(nodes, ["t", 3], {"t": (1, 11)}, start=_floats(3), zero=np.zeros((), np.float32))


def extended() -> Graph:
    """Rows behind those of an input, all of a width that varies."""
    nodes = [
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Gather", ["shape", "one"], ["width"]),
        _NODE("Concat", ["two", "width"], ["size"], axis=0),
        _NODE("ConstantOfShape", ["size"], ["zeros"]),
        _NODE("Concat", ["x", "zeros"], ["a"], axis=0),
        _NODE("Relu", ["a"], ["y"]),
    ]
    return _one(nodes, ["n", "m"], {"n": (1, 7), "m": (1, 9)}, one=np.array([1]), two=np.array([2]))


def neighbours() -> Graph:
    """A norm over neighbouring channels, whose number varies."""
    nodes = [_NODE("Exp", ["x"], ["a"]), _NODE("LRN", ["a"], ["b"], size=3), _NODE("Neg", ["b"], ["y"])]
    return _one(nodes, [2, "c", "m", 2], {"c": (1, 9), "m": (1, 4)})


def resized() -> Graph:
    """Resizes: linear by a fraction, cubic to a fixed size, nearest back to the original size."""
    nodes = [
        _NODE("Resize", ["x", "", "scales"], ["a"], mode="linear"),
        _NODE("Resize", ["a", "", "", "fixed"], ["b"], mode="cubic", coordinate_transformation_mode="align_corners"),
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Resize", ["b", "", "", "shape"], ["c"], mode="nearest", nearest_mode="floor"),
        _NODE("Add", ["c", "x"], ["y"]),
    ]
    scales, fixed = np.array([1, 1, 1.5, 2], np.float32), np.array([1, 2, 5, 6])
    return _one(nodes, [1, 2, "h", "w"], _IMAGE, scales=scales, fixed=fixed)


def norms() -> Graph:
    """Norms over all dimensions that vary."""
    nodes = [
        _NODE("InstanceNormalization", ["x", "s", "b"], ["a"]),
        _NODE("Reshape", ["a", "groups"], ["c"]),
        _NODE("InstanceNormalization", ["c", "s", "b"], ["d"]),
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Reshape", ["d", "shape"], ["y"]),
    ]
    groups = np.array([0, 3, -1])
    return _one(nodes, [2, 3, "h", "w"], {"h": (2, 7), "w": (1, 9)}, s=_floats(3), b=_floats(3), groups=groups)


def between_convolutions() -> Graph:
    """Group norms and a linear resize between convolutions, where images are channels-last."""
    nodes = [
        _NODE("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        _NODE("Reshape", ["a", "groups"], ["c"]),
        _NODE("InstanceNormalization", ["c", "s", "b"], ["d"]),
        _NODE("Shape", ["a"], ["shape"]),
        _NODE("Reshape", ["d", "shape"], ["e"]),
        _NODE("Mul", ["e", "gain"], ["f"]),
        _NODE("Resize", ["f", "", "scales"], ["g"], mode="linear"),
        _NODE("Conv", ["g", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    weights = {"w": _floats(32, 3, 3, 3), "v": _floats(4, 32, 3, 3) / 16, "s": _floats(8), "b": _floats(8)}
    numbers = {
        "groups": np.array([0, 8, -1]),
        "gain": _floats(32, 1, 1),
        "scales": np.array([1, 1, 2, 1.5], np.float32),
    }
    return _one(nodes, ["n", 3, "h", "w"], {"n": (1, 2), "h": (1, 7), "w": (2, 9)}, **weights, **numbers)


def borders() -> Graph:
    """Windows and padding whose offsets depend on sizes, and means that exclude padding."""
    nodes = [
        _NODE("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        _NODE("Pad", ["a", "pads"], ["b"], mode="edge"),
        _NODE("AveragePool", ["b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        _NODE("Pad", ["c", "pads"], ["d"], mode="reflect"),
        _NODE("AveragePool", ["d"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    ]
    pads = np.array([0, 0, 1, 2, 0, 0, 2, 1])
    return _one(nodes, [1, 2, "h", "w"], _IMAGE, w=_floats(2, 2, 3, 3), pads=pads)


def overhanging_windows() -> Graph:
    """Poolings whose kernels are larger than some images, or than all of them."""
    nodes = [
        _NODE("MaxPool", ["x"], ["a"], kernel_shape=[4, 5], strides=[2, 3], pads=[1, 0, 0, 1], ceil_mode=1),
        _NODE("AveragePool", ["x"], ["b"], kernel_shape=[6, 4], strides=[6, 5], ceil_mode=1),
        _NODE("AveragePool", ["x"], ["c"], kernel_shape=[1280, 1280], strides=[1280, 1280], ceil_mode=1),
        _NODE("AveragePool", ["x"], ["d"], kernel_shape=[9, 7], strides=[9, 7], pads=[1, 2, 1, 0], ceil_mode=1),
        *(_NODE("GlobalAveragePool", [name], [f"mean_{name}"]) for name in "abd"),
        _NODE("Sum", ["mean_a", "mean_b", "c", "mean_d"], ["y"]),
    ]
    return _one(nodes, [1, 2, "h", "w"], {"h": (3, 9), "w": (3, 8)})


def bordered_tiles() -> Graph:
    """Winograd convolutions of reflected data, and of edge padding with zeros around it."""
    nodes = [
        _NODE("Pad", ["x", "pads"], ["a"], mode="reflect"),
        _NODE("Conv", ["a", "w"], ["b"]),
        _NODE("Pad", ["b", "pads"], ["c"], mode="edge"),
        _NODE("Conv", ["c", "v"], ["d"], pads=[1, 1, 1, 1]),
        _NODE("Conv", ["d", "w"], ["y"], auto_pad="SAME_UPPER"),
    ]
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    weights = {"w": _floats(64, 32, 3, 3) / 17, "v": _floats(32, 64, 3, 3) / 24}
    return _one(nodes, [1, 32, "h", "w"], {"h": (4, 23), "w": (4, 19)}, **weights, pads=pads)


def woven() -> Graph:
    """Transposed convolutions whose strides do not divide their kernels, of images and of lines."""
    nodes = [
        _NODE("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        _NODE("LeakyRelu", ["a"], ["b"]),
        _NODE("ReduceMean", ["b"], ["c"], axes=[2], keepdims=0),
        _NODE("ConvTranspose", ["c", "v"], ["y"], strides=[3], pads=[2, 2]),
    ]
    return _one(nodes, [1, 4, "h", "w"], _IMAGE, w=_floats(4, 8, 3, 5), v=_floats(8, 2, 7))


def halves() -> Graph:
    """The first half of a dimension that varies, rounded, and padding up to a multiple."""
    nodes = [
        _NODE("Shape", ["x"], ["size"], start=1, end=2),
        _NODE("Div", ["size", "two"], ["half"]),
        _NODE("Slice", ["x", "zero", "half", "one"], ["a"]),
        _NODE("Sub", ["zero", "half"], ["less"]),
        _NODE("Mod", ["less", "four"], ["missing"]),
        _NODE("Concat", ["nothing", "missing"], ["pads"], axis=0),
        _NODE("Pad", ["a", "pads"], ["b"]),
        _NODE("Reshape", ["b", "rows"], ["c"]),
        _NODE("ReduceMax", ["c"], ["y"], axes=[2]),
    ]
    numbers = {name: np.array([value]) for name, value in {"zero": 0, "one": 1, "two": 2, "four": 4}.items()}
    more = {"nothing": np.zeros(3, np.int64), "rows": np.array([2, -1, 4])}
    return _one(nodes, [2, "m"], {"m": (2, 19)}, **numbers, **more)


def sorted_() -> Graph:
    """Top-k elements and their indices, elements gathered and scattered by index, and merged dimensions as a result."""
    nodes = [
        _NODE("Shape", ["x"], ["size"], start=1, end=2),
        _NODE("TopK", ["x", "size"], ["a", "places"], axis=1, largest=0),
        _NODE("GatherElements", ["x", "places"], ["b"], axis=1),
        _NODE("ScatterElements", ["a", "places", "b"], ["c"], axis=1),
        _NODE("Concat", ["c", "b"], ["d"], axis=0),
        _NODE("Reshape", ["d", "all"], ["y"]),
    ]
    return _one(nodes, ["n", "m"], {"n": (1, 3), "m": (1, 8)}, all=np.array([-1]))


def running() -> Graph:
    """Cumulative sums along two dimensions; one runs backwards and excludes the element itself."""
    nodes = [
        _NODE("CumSum", ["x", "first"], ["a"]),
        _NODE("CumSum", ["a", "second"], ["y"], exclusive=1, reverse=1),
    ]
    return _one(nodes, ["n", "m"], {"n": (1, 6), "m": (1, 9)}, first=np.array(0), second=np.array(1))


def sampled() -> Graph:
    """An image sampled at a variable number of positions."""
    nodes = [_NODE("GridSample", ["image", "x"], ["y"], mode="bilinear", padding_mode="border")]
    return _one(nodes, [1, "n", "m", 2], {"n": (1, 5), "m": (1, 9)}, image=_floats(1, 3, 4, 6))


def cells() -> Graph:
    """The centres of all cells of an image and a factor for each, as detectors compute them from sizes."""
    nodes = [
        _NODE("Shape", ["x"], ["both"]),
        _NODE("Shape", ["x"], ["rows"], start=0, end=1),
        _NODE("Squeeze", ["rows"], ["h"]),
        _NODE("Range", ["zero", "h", "one"], ["numbers"]),
        _NODE("Cast", ["numbers"], ["floats"], to=TensorProto.FLOAT),
        _NODE("Add", ["floats", "half"], ["centres"]),
        _NODE("Unsqueeze", ["centres", "last"], ["column"]),
        _NODE("Expand", ["column", "both"], ["grid"]),
        _NODE("Add", ["grid", "x"], ["a"]),
        _NODE("Reshape", ["a", "all"], ["fine"]),
        _NODE("ReduceMean", ["x"], ["coarse"], axes=[1], keepdims=0),
        _NODE("Concat", ["fine", "coarse"], ["b"], axis=0),
        _NODE("Shape", ["fine"], ["many"]),
        _NODE("Expand", ["eight", "many"], ["small"]),
        _NODE("Expand", ["sixteen", "rows"], ["large"]),
        _NODE("Concat", ["small", "large"], ["factors"], axis=0),
        _NODE("Mul", ["b", "factors"], ["y"]),
    ]
    numbers = {"zero": np.array(0), "one": np.array(1), "last": np.array([1]), "all": np.array([-1])}
    factors = {name: np.array([value], np.float32) for name, value in {"half": 0.5, "eight": 8, "sixteen": 16}.items()}
    return _one(nodes, ["h", "w"], {"h": (1, 7), "w": (1, 9)}, **numbers, **factors)


def rows() -> Graph:
    """Products of the rows of sequences, with ops between them; the mean over rows covers the data only."""
    nodes = [
        _NODE("MatMul", ["x", "w"], ["a"]),
        _NODE("Add", ["a", "b"], ["c"]),
        _NODE("Relu", ["c"], ["d"]),
        _NODE("MatMul", ["d", "v"], ["e"]),
        _NODE("Add", ["e", "x"], ["f"]),
        _NODE("LayerNormalization", ["f", "s", "t"], ["g"]),
        _NODE("MatMul", ["g", "w"], ["h"]),
        _NODE("ReduceMean", ["h"], ["m"], axes=[1], keepdims=1),
        _NODE("Sub", ["h", "m"], ["y"]),
    ]
    weights = {"w": _floats(192, 256) / 16, "v": _floats(256, 192) / 16, "b": _floats(1, 1, 256)}
    scales = {"s": _floats(192), "t": _floats(192)}
    return _one(nodes, ["n", "length", 192], {"n": (2, 9), "length": (1, 7)}, **weights, **scales)


def dense() -> Graph:
    """A dense network: each layer scales and reads all earlier results, and appends its own to them."""
    nodes, weights, before = [], {}, "x"
    for layer in range(24):
        width = 8 + 4 * layer
        weights[f"s{layer}"], weights[f"v{layer}"] = _floats(width, 1, 1), _floats(8, width, 1, 1) / width
        weights[f"w{layer}"] = _floats(4, 8, 3, 3) / 9
        nodes += [
            _NODE("Mul", [before, f"s{layer}"], [f"a{layer}"]),
            _NODE("Relu", [f"a{layer}"], [f"b{layer}"]),
            _NODE("Conv", [f"b{layer}", f"v{layer}"], [f"c{layer}"]),
            _NODE("Relu", [f"c{layer}"], [f"d{layer}"]),
            _NODE("Conv", [f"d{layer}", f"w{layer}"], [f"e{layer}"], pads=[1, 1, 1, 1]),
            _NODE("Concat", [before, f"e{layer}"], [f"f{layer}" if layer < 23 else "y"], axis=1),
        ]
        before = f"f{layer}"
    return _one(nodes, ["n", 8, "h", 6], {"n": (1, 3), "h": (3, 8)}, **weights)


def computed_parts() -> Graph:
    """A split into two halves, of which the second may be longer, in either order."""
    nodes = [
        _NODE("Shape", ["x"], ["n"], end=1),
        _NODE("Div", ["n", "two"], ["less"]),
        _NODE("Sub", ["n", "less"], ["more"]),
        _NODE("Concat", ["less", "more"], ["rising"], axis=0),
        _NODE("Concat", ["more", "less"], ["falling"], axis=0),
        _NODE("Split", ["x", "rising"], ["a", "b"]),
        _NODE("Split", ["x", "falling"], ["c", "d"]),
        _NODE("Concat", ["b", "d", "a", "c"], ["y"], axis=0),
    ]
    return _one(nodes, ["n", 3], {"n": (1, 9)}, two=np.array([2]))


GRAPHS = (
    layers,
    loops,
    extended,
    neighbours,
    resized,
    norms,
    between_convolutions,
    borders,
    bordered_tiles,
    overhanging_windows,
    woven,
    halves,
    sorted_,
    running,
    sampled,
    cells,
    rows,
    dense,
    computed_parts,
)
