"""`stepwell-interleave-epilogues`: computes epilogues of tiles while a matrix unit multiplies the next tile (AMX)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, scf

from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import kernels_in
from ...passes.ir.named_ops import ops_named
from ...passes.ir.rewriting import walk
from ...passes.ir.values import constant_index, integer_of
from .tile_loops import (
    BOUNDS,
    REPEATABLE,
    STORE,
    around,
    body_of_loop,
    calls,
    constant_bounds,
    has_effects,
    has_products,
    made_inside,
    may_carry,
    memory_read,
    memory_written,
    product_loops,
    trips,
)


@register
@dataclass(frozen=True)
class InterleaveEpiloguesPass(Pass):
    """Compute the epilogue of each tile of a matrix unit's sums among the products of the next tile.

    Vector instructions and products of tiles run on different units, but a core looks only some hundred instructions
    ahead, fewer than an epilogue takes. The epilogue of the last tile follows the loops over tiles.

        scf.for %i = .. {
          scf.for %k = .. { tdpbusd .. }
          tilestored .. %sums
          scf.for %r = 0 to 32 step 4 { epilogue of the rows %r of %sums for the tile %i }
        }
        -->
        %last, %some = scf.for %i = .. iter_args(%before = .., %has = false) {
          scf.for %k = .. {
            scf.for %r = (4 * %k) to (%has ? 4 * %k + 4 : 0) step 4 { epilogue of the rows %r for the tile %before }
            tdpbusd ..
          }
          tilestored .. %sums
          scf.yield %i, true
        }
        scf.if %some { scf.for %r = 0 to 32 step 4 { epilogue of the rows %r for the tile %last } }

    Preconditions: `stepwell-lower-matrix-tiles` has run. An epilogue does not write what products of its loops read.
    """

    name = "stepwell-interleave-epilogues"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the loops over tiles of every kernel."""
        for kernel in kernels_in(op):
            sites = [_Site.of(loop) for loop in ops_named(kernel, "scf.for")]
            for site in [item for item in sites if item is not None]:
                site.rewrite()


@dataclass
class _Site:
    """Loops over tiles.

    Attributes:
        tiles: the loops over tiles, from the outermost on.
        products: nested loops over the products of a tile, as many as have a part of the epilogue in each iteration.
        epilogue: the loop of the epilogue, whose bounds are constant.
        repeated: the ops in the loops over tiles whose results the epilogue reads.
    """

    tiles: Sequence[ir.Operation]
    products: Sequence[ir.Operation]
    epilogue: ir.Operation
    repeated: Sequence[ir.Operation]
    _indices: list[ir.Value] = field(default_factory=list)

    @staticmethod
    def of(loop: ir.Operation) -> _Site | None:
        """Returns the loops around the tiles of a loop; None if it has no epilogue that can wait."""
        parts = [op for op in body_of_loop(loop) if has_effects(op)]
        loops = [op for op in parts if op.name == "scf.for"]
        if len(loop.results) or len(loops) != 2 or loops[1] != parts[-1] or not has_products(loops[0]):
            return None
        products, epilogue = loops
        between = parts[parts.index(products) + 1 : -1]
        if not between or not all(calls(op, STORE) for op in between) or has_products(epilogue):
            return None
        if len(epilogue.results) or len(products.results) or trips(epilogue) is None or trips(products) is None:
            return None
        tiles = [loop]
        while may_carry(tiles):
            tiles.insert(0, around(tiles[0]))
        repeated = made_inside(epilogue, tiles[0])
        if not all(op.name.startswith(REPEATABLE) for op in repeated) or memory_read(products) & memory_written(
            epilogue
        ):
            return None
        return _Site(tiles, product_loops(products, epilogue), epilogue, repeated)

    def rewrite(self) -> None:
        """Delays the epilogue."""
        outermost = self.tiles[0]
        with outermost.location, ir.InsertionPoint(outermost):
            never = arith.constant(ir.IntegerType.get_signless(1), 0)
            first = [loop.operands[0] for loop in self.tiles]
            starts = [constant_index(number) if (number := integer_of(value)) is not None else value for value in first]
            ends = self._loop(0, [*starts, never])
            after = scf.IfOp(ends[-1])
            with ir.InsertionPoint(after.then_block):
                self._epilogue_of(ends[:-1])
                scf.YieldOp([])
        self.epilogue.erase()
        outermost.erase()

    def _loop(self, level: int, state: Sequence[ir.Value]) -> list[ir.Value]:
        """Replaces a loop over tiles by one that carries the indices of the tile before; returns those of the last."""
        old = self.tiles[level]
        lower, upper, step = list(old.operands)[:BOUNDS]
        loop = scf.ForOp(lower, upper, step, list(state))
        for item in old.attributes:
            loop.operation.attributes[item.name] = item.attr
        block, carried = old.regions[0].blocks[0], list(loop.inner_iter_args)
        block.arguments[0].replace_all_uses_with(loop.induction_variable)
        self._indices.append(loop.induction_variable)
        for op in [op.operation for op in block.operations][:-1]:
            op.detach_from_parent()
            loop.body.append(op)
        if level + 1 < len(self.tiles):
            inner = self.tiles[level + 1]
            with ir.InsertionPoint(inner):
                ends = self._loop(level + 1, carried)
            inner.erase()
        else:
            self._interleave(carried)
            self.epilogue.detach_from_parent()
            with ir.InsertionPoint(loop.body):
                ends = [*self._indices, arith.constant(ir.IntegerType.get_signless(1), 1)]
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(ends)
        return list(loop.results)

    def _interleave(self, state: Sequence[ir.Value]) -> None:
        """Adds a part of the epilogue of the tile before to each iteration of the loops over products."""
        *before, has_tile = state
        with ir.InsertionPoint(self.products[0]):
            known = self._repeat(before)
        start, stop, step = constant_bounds(self.epilogue)
        rounds = math.prod(trips(loop) or 1 for loop in self.products)
        part = -(-(trips(self.epilogue) or 1) // rounds) * step
        inner = self.products[-1].regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(inner):
            number = constant_index(0)
            for loop in self.products:
                first, _, distance = constant_bounds(loop)
                index = loop.regions[0].blocks[0].arguments[0]
                place = arith.divui(arith.subi(index, constant_index(first)), constant_index(distance))
                number = arith.addi(arith.muli(number, constant_index(trips(loop) or 1)), place)
            end = arith.select(has_tile, constant_index(stop), constant_index(start))
            lower = arith.addi(constant_index(start), arith.muli(number, constant_index(part)))
            upper = arith.minsi(arith.addi(lower, constant_index(part)), end)
            self._copy(known, lower, upper)

    def _epilogue_of(self, indices: Sequence[ir.Value]) -> None:
        """Adds the whole epilogue of a tile."""
        start, stop, _ = constant_bounds(self.epilogue)
        self._copy(self._repeat(indices), constant_index(start), constant_index(stop))

    def _copy(self, known: Mapping[ir.Value, ir.Value], lower: ir.Value, upper: ir.Value) -> None:
        bounds = lower, upper, constant_index(constant_bounds(self.epilogue)[2])
        copy = self.epilogue.clone().operation
        for number, value in enumerate(bounds):
            copy.operands[number] = value
        for op in walk(copy):
            _replace_operands(op, known)

    def _repeat(self, indices: Sequence[ir.Value]) -> dict[ir.Value, ir.Value]:
        """Computes again, for the tile with these indices, what the epilogue reads."""
        known = dict(zip(self._indices, indices, strict=True))
        for op in self.repeated:
            copy = op.clone().operation
            _replace_operands(copy, known)
            known |= dict(zip(op.results, copy.results, strict=True))
        return known


def _replace_operands(op: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> None:
    for number, value in enumerate(op.operands):
        if value in known:
            op.operands[number] = known[value]
