"""Ops of a Winograd convolution after its lowering to linalg."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ....dialects import discardable
from ....machines.convolutions import WinogradStrips
from ....passes.ir.rewriting import walk
from ....passes.ir.values import shape_of


@dataclass(frozen=True)
class WinogradGroup:
    """Steps of one column group: its product, its epilogue, and the matrices of the transform between."""

    product: ir.Operation
    epilogue: ir.Operation
    matrices: tuple[ir.Value, ir.Value]

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(shape_of(self.product.results[0])[2:])


@dataclass(frozen=True)
class WinogradSteps:
    """Ops of a kernel after its lowering to linalg."""

    input: ir.Operation
    groups: list[WinogradGroup]

    @staticmethod
    def of(kernel: ir.Operation) -> WinogradSteps:
        """Finds the ops in the kernel."""
        tagged: dict[str, list[ir.Operation]] = {"input": [], "output": [], "epilogue": [], "product": []}
        for op in walk(kernel):
            if discardable.WINOGRAD.is_on(op):
                tagged[discardable.WINOGRAD.required(op)].append(op)
            elif discardable.CONTRACTION.is_on(op):
                tagged["product"].append(op)
        groups = [
            WinogradGroup(product, epilogue, (output.operands[1], output.operands[2]))
            for product, output, epilogue in zip(tagged["product"], tagged["output"], tagged["epilogue"], strict=True)
        ]
        return WinogradSteps(tagged["input"][0], groups)

    @property
    def points(self) -> tuple[int, int]:
        """Numbers of points at which a tile is evaluated, along rows and columns."""
        down, across, *_ = shape_of(self.input.results[0])
        return down, across

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the results of a tile."""
        down, across = (shape_of(matrix)[0] for matrix in self.groups[0].matrices)
        return down, across

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Images, and rows and columns of tiles."""
        _, _, batch, rows, cols, _ = shape_of(self.input.results[0])
        return batch, rows, cols

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return shape_of(self.input.results[0])[-1]

    @property
    def columns(self) -> int:
        """Channels of the result."""
        return sum(group.width for group in self.groups)

    @property
    def strips(self) -> WinogradStrips:
        """Work of the strips of tiles."""
        _, *image = shape_of(self.input.operands[0])
        return WinogradStrips(self.points, self.tile, self.channels, self.columns, 4 * math.prod(image))
