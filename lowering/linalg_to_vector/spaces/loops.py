"""The search space of kernels that become vector loops: elementwise, reductions, pooling and movement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....lowering.target import Target
from ....machines.costs import MOST_BLOCKS
from ..schedules.steps import LinalgStep, tile_of_blocks
from .space import Axis, Parameters, RefusedError, SearchSpace, SpaceChoice, counts_up_to, log2

# Unroll factors and numbers of rows reduced together to try, and the least vector in bytes (SSE, Neon).
_UNROLLS = (1, 2, 4, 8)
_TOGETHER = (1, 2, 4, 8, 16)
_LEAST_VECTOR = 16


@dataclass(frozen=True)
class LoopNest:
    """The loops of the op whose blocks are distributed.

    Attributes:
        sizes: the extents of the loops.
        parallel: the loops that may be cut, outermost first.
        reduced: the loops that some op of the kernel reduces.
    """

    sizes: tuple[int, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoopSpace(SearchSpace):
    """Width and unrolling of vectors, number of parallel blocks, and rows of a reduction that are processed together.

    Attributes:
        kind: the kernel's class.
        nests: the loops of each op that has blocks of its own.
        moved: bytes that the kernel reads and writes.
    """

    kind: str = ""
    nests: tuple[LoopNest, ...] = ()
    moved: int = 0

    @staticmethod
    def of(kind: str, steps: Sequence[LinalgStep], default: Mapping[str, Any], target: Target, moved: int) -> LoopSpace:
        """Returns the space of a kernel of some ops with this default schedule."""
        roots = steps if kind == "movement" else steps[-1:]
        reduced = {dim for step in steps for dim in step.reductions if step.sizes == steps[-1].sizes}
        nests = tuple(_nest(step, kind, reduced) for step in roots)
        widths = [width for width in (16, 32, 64) if _LEAST_VECTOR <= width <= target.vector_bytes]
        axes = [Axis.of("unroll", _UNROLLS), Axis.of("vector_bytes", widths)]
        if "blocks" in default and any(nest.parallel for nest in nests):
            axes.append(Axis.of("blocks", counts_up_to(MOST_BLOCKS)))
        if any(default.get("rows", ())) and _row_dim(nests[0]) is not None:
            axes.append(Axis.of("rows", _TOGETHER))
        return LoopSpace(target.machine, default, tuple(axes), kind, nests, moved)

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        found = {name: choice[name] for name in ("unroll", "vector_bytes") if choice.get(name) is not None}
        if choice.get("blocks") is not None:
            tiles = [_cut(nest, choice["blocks"]) for nest in self.nests]
            found["blocks"] = tiles if self.kind == "movement" else tiles[0]
        if choice.get("rows") is not None:
            found["rows"] = self._rows(choice["rows"], found.get("blocks", self.default["blocks"]))
        return self.changed(found)

    def _rows(self, count: int, block: Sequence[int]) -> list[int]:
        """Returns the tile of some rows that are processed together.

        Raises:
            RefusedError: they do not divide a block.
        """
        dim = _row_dim(self.nests[0])
        rows = list(self.default["rows"])
        if dim is None:
            raise RefusedError("the reduction has no rows")
        extent = block[dim] if any(block) and block[dim] else self.nests[0].sizes[dim]
        if extent % count:
            raise RefusedError(f"{count} rows at once do not divide a block of {extent}")
        rows[dim] = count
        return rows

    def features(self, parameters: Parameters) -> dict[str, float]:
        whole = self.complete(parameters)
        nest = self.nests[-1]
        blocks = whole.get("blocks", [])
        tile = blocks[-1] if self.kind == "movement" and blocks else blocks
        count = math.prod(size // part for size, part in zip(nest.sizes, tile, strict=True) if part) if tile else 1
        elements = math.prod(nest.sizes)
        return {
            "reduces": float(bool(nest.reduced)),
            "moves": float(self.kind == "movement"),
            "moved of L2": log2(self.moved / self.machine.l2_bytes),
            "elements": log2(elements),
            "innermost": log2(nest.sizes[-1] if nest.sizes else 1),
            "unroll": float(whole["unroll"]),
            "vector": whole["vector_bytes"] / self.machine.vector_bytes,
            "blocks": log2(count),
            "block elements": log2(elements / count),
            "largest share": -(-count // 2) / count,
            "rows together": float(max(whole.get("rows") or [0])),
        }

    def predicted(self, parameters: Parameters) -> float | None:
        return None


def _nest(step: LinalgStep, kind: str, reduced: set[int]) -> LoopNest:
    parallel = [dim for dim in range(len(step.sizes)) if dim not in step.reductions]
    if kind == "reduction":
        parallel = [dim for dim in parallel if dim not in reduced]
    elif kind == "pooling":
        parallel = parallel[:-1]
    if step.op.parent is not None and step.op.parent.name == "scf.forall":
        parallel = []
    return LoopNest(tuple(step.sizes), tuple(parallel), tuple(sorted(reduced)))


def _row_dim(nest: LoopNest) -> int | None:
    """Returns the innermost loop that is not reduced, if the innermost loop of all is."""
    last = len(nest.sizes) - 1
    if last not in nest.reduced:
        return None
    return max((dim for dim in nest.parallel if dim not in nest.reduced), default=None)


def _cut(nest: LoopNest, count: int) -> list[int]:
    """Returns the tile of a number of blocks; [] for one block.

    Raises:
        RefusedError: the loops cannot be cut into this many blocks.
    """
    if count == 1 or not nest.parallel:
        return []
    tile = tile_of_blocks(nest.sizes, nest.parallel, count, 1)
    if not tile:
        raise RefusedError(f"loops of {'x'.join(map(str, nest.sizes))} cannot be cut into {count} blocks")
    return tile
