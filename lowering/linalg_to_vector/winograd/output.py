"""Transform of the products and the elementwise ops after it, as vector code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import tensor, vector

from ....dialects import discardable
from ....passes.ir.values import shape_of
from ...builders.indices import Index, add, at_most, multiply, subtract, value_of
from ..scalar_bodies import evaluate_body
from ..tile_reads import Chunk
from .walk import Matrices, along, apply_both, grid, matrices_of, read_row, write_row


@dataclass(frozen=True)
class OutputTransform:
    """Emits the transform of a block of tiles, and the elementwise ops on its results.

    Attributes:
        products: the products, [x, y, h, w, k].
        matrices: A^T along rows and columns.
        epilogue: the generic with the elementwise ops, on [height, width, k].
        lanes: elements per vector.
    """

    products: ir.Value
    matrices: Matrices
    epilogue: ir.Operation
    lanes: int

    @staticmethod
    def of(epilogue: ir.Operation, lanes: int) -> OutputTransform:
        producer = epilogue.operands[0].owner.operation
        while not discardable.WINOGRAD.is_on(producer):  # views of the result
            producer = producer.operands[0].owner.operation
        return OutputTransform(producer.operands[0], matrices_of(producer), epilogue, lanes)

    def emit(self) -> ir.Value:
        target = self.epilogue.operands[len(self.epilogue.operands) - 1]
        _, _, rows, cols, _ = shape_of(self.products)
        last = [subtract(_extent(target, dim), 1) for dim in range(2)]

        def tile(row: Index, col: Index, into: ir.Value) -> ir.Value:
            pixels = [
                [at_most(add(multiply(index, len(matrix)), step), end) for step in range(len(matrix))]
                for index, end, matrix in zip((row, col), last, self.matrices, strict=True)
            ]
            return self._channels((row, col), pixels, into)

        return grid(rows, cols, target, tile)

    def _channels(self, position: tuple[Index, Index], pixels: Sequence[Sequence[Index]], target: ir.Value) -> ir.Value:
        down, across = (range(matrix.shape[1]) for matrix in self.matrices)

        def transform(channel: Index, chunk: Chunk, into: ir.Value) -> ir.Value:
            values = [[read_row(self.products, [x, y, *position, channel], chunk) for y in across] for x in down]
            # Overhanging results are written to the last pixel inside, before that pixel's own result.
            for (p, q), value in reversed(apply_both(self.matrices, values)):
                into = self._store(value, [pixels[0][p], pixels[1][q], channel], chunk, into)
            return into

        return along(shape_of(self.products)[-1], self.lanes, target, transform)

    def _store(self, value: ir.Value, position: list[Index], chunk: Chunk, into: ir.Value) -> ir.Value:
        maps = [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(self.epilogue.attributes["indexing_maps"])]
        vectors: list[ir.Value | None] = [value]
        for operand, entry in zip(list(self.epilogue.operands)[1:-1], maps[1:-1], strict=True):
            dims = [ir.AffineDimExpr(expr).position for expr in entry.results]
            indices = [position[dim] for dim in dims]
            if dims and dims[-1] == len(position) - 1:
                vectors.append(read_row(operand, indices, chunk))
                continue
            scalar = tensor.extract(operand, [value_of(index) for index in indices])
            vectors.append(vector.broadcast(chunk.type(scalar.type), scalar))
        block = self.epilogue.regions[0].blocks[0]
        return write_row(evaluate_body(block, [*vectors, None], chunk.lanes), into, position, chunk)


def _extent(value: ir.Value, dim: int) -> Index:
    size = shape_of(value)[dim]
    return tensor.DimOp(value, value_of(dim)).result if ir.ShapedType.is_dynamic_size(size) else size
