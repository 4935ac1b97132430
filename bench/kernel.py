"""The description of a kernel that is measured, and its ONNX model."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Function = Callable[..., Any]

_OPSET = 20


@dataclass(frozen=True)
class Kernel:
    """A kernel to measure.

    Attributes:
        name: the family and the sizes.
        family: the kind of computation.
        nodes: nodes of the ONNX graph; the last one computes "y".
        inputs: shapes by name.
        output: the shape of "y".
        flops: operations of a call: two per multiply-add, one per element and step of anything else.
        torch: given the module, returns an equivalent function of torch tensors: inputs, then weights.
        constants: shapes of weights by name.
        numpy: an equivalent function of numpy arrays; None if numpy has none.
    """

    name: str
    family: str
    nodes: Sequence[onnx.NodeProto]
    inputs: dict[str, Shape]
    output: Shape
    flops: float
    torch: Callable[[Any], Function]
    constants: dict[str, Shape] = field(default_factory=dict)
    numpy: Function | None = None

    @property
    def bytes(self) -> float:
        """Minimum number of bytes that a call reads and writes."""
        return 4 * sum(math.prod(shape) for shape in [*self.inputs.values(), *self.constants.values(), self.output])

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the contents of the inputs, the same each time."""
        return self._random(self.inputs)

    def weights(self) -> list[np.ndarray]:
        """Returns the contents of the weights, the same each time."""
        return list(self._random(self.constants).values())

    def stored(self) -> dict[str, np.ndarray]:
        """Returns the constants of the ONNX model by name."""
        return self._random(self.constants)

    def write(self, folder: Path) -> Path:
        """Writes the ONNX model."""
        stored = [numpy_helper.from_array(array, name) for name, array in self.stored().items()]
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, self.output)
        graph = helper.make_graph(self.nodes, self.family.replace(" ", "_"), inputs, [output], stored)
        domains = {"": _OPSET, **{node.domain: 1 for node in self.nodes if node.domain}}
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        path = folder / f"{self.name.replace(' ', '_').replace('/', '_')}.onnx"
        onnx.save(model, path)
        return path

    def _random(self, shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        # Scales weights so that sums of any depth stay near one.
        return {
            name: random.standard_normal(shape, np.float32)
            / np.float32(math.sqrt(math.prod(shape[1:])) if name == "w" else 1)
            for name, shape in shapes.items()
        }
