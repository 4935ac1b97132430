"""Kernels whose results have as many elements as the contents of the inputs decide.

A float is computed from each result: its sum, so that all systems return a tensor of one shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .kernel import Function, Kernel

_MOST_BOXES = 100


def nonzero(size: int, above: float) -> Kernel:
    """The indices of the elements of a vector that exceed a number, as NonZero finds them."""
    nodes = [
        helper.make_node("Sub", ["x", "above"], ["less"]),
        helper.make_node("Relu", ["less"], ["some"]),
        helper.make_node("NonZero", ["some"], ["found"]),
    ]
    return _summed("nonzero", size, above, nodes, lambda torch: lambda x: torch.relu(x - above).nonzero().float().sum())


def compress(size: int, above: float) -> Kernel:
    """The elements of a vector that exceed a number."""
    nodes = [
        helper.make_node("Greater", ["x", "above"], ["mask"]),
        helper.make_node("Compress", ["x", "mask"], ["found"]),
    ]
    return _summed("compress", size, above, nodes, lambda torch: lambda x: x[x > above].sum())


def unique(size: int, scale: float) -> Kernel:
    """The distinct elements of a vector of whole numbers with a standard deviation of `scale`, in order."""
    nodes = [
        helper.make_node("Mul", ["x", "above"], ["spread"]),
        helper.make_node("Round", ["spread"], ["whole"]),
        helper.make_node("Abs", ["whole"], ["least"]),
        helper.make_node("Unique", ["least"], ["found"]),
    ]
    return _summed("unique", size, scale, nodes, lambda torch: lambda x: torch.unique((x * scale).round().abs()).sum())


def non_max_suppression(boxes: int, classes: int, above: float) -> Kernel:
    """The best boxes of each class with scores above a number, without those that overlap better ones by half."""
    nodes = [
        _stored("most", np.array([_MOST_BOXES])),
        _stored("overlap", np.array([0.5], np.float32)),
        _stored("score", np.array([above], np.float32)),
        helper.make_node("NonMaxSuppression", ["x", "z", "most", "overlap", "score"], ["found"]),
    ]
    name = f"nms {boxes} boxes x{classes}"
    shapes = {"x": (1, boxes, 4), "z": (1, classes, boxes)}
    work = 1.0 * boxes * classes
    return Kernel(name, "selecting", [*nodes, *_sum()], shapes, (), work, lambda torch: _suppressed(torch, above))


def _summed(name: str, size: int, number: float, nodes: list[onnx.NodeProto], torch: Any) -> Kernel:
    text = f"{number:g}".replace(".", "-")
    return Kernel(
        f"{name} {size} by {text}",
        "selecting",
        [*_head(number), *nodes, *_sum()],
        {"x": (size,)},
        (),
        1.0 * size,
        torch,
    )


def _head(number: float) -> list[onnx.NodeProto]:
    return [_stored("above", np.array(number, np.float32))]


def _sum() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", ["found"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers"], ["y"], keepdims=0),
    ]


def _stored(name: str, value: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _suppressed(torch: Any, above: float) -> Function:
    """Returns a function that adds the indices of the boxes and classes that are kept, one after the other."""

    def run(x: Any, z: Any) -> Any:
        low, high = torch.minimum(x[0, :, :2], x[0, :, 2:]), torch.maximum(x[0, :, :2], x[0, :, 2:])
        areas, total = (high - low).prod(1), torch.zeros(())
        for number, scores in enumerate(z[0]):
            left = scores.argsort(descending=True)
            left = left[scores[left] > above]
            for _ in range(_MOST_BOXES):
                if not len(left):
                    break
                best, left = left[0], left[1:]
                total = total + number + best
                sides = (torch.minimum(high[best], high[left]) - torch.maximum(low[best], low[left])).clamp(min=0)
                common = sides.prod(1)
                left = left[common <= 0.5 * (areas[best] + areas[left] - common)]
        return total

    return run
