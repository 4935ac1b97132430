"""Linalg ops of a kernel that is not a contraction, as seen by schedules, and the script that tiles them.

Every op gets a number in its attribute `stepwell.position`, by which the script finds it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from ....dialects import discardable
from ....machines.costs import MOST_BLOCKS, elementwise_blocks, elementwise_ns
from ....machines.machine import Machine
from ....passes.ir.rewriting import walk
from ...target import Target
from ..loops.generic import Generic
from ..loops.widths import is_costly
from .base import Schedule, given_parameters


@dataclass
class LinalgStep:
    """One linalg op.

    Attributes:
        op: the op.
        number: its `stepwell.position`.
    """

    op: ir.Operation
    number: int
    generic: Generic | None = field(init=False)

    def __post_init__(self) -> None:
        self.generic = Generic(self.op) if self.op.name == "linalg.generic" else None

    @property
    def sizes(self) -> list[int]:
        """Extents of the loops."""
        if self.generic is None:
            return list(ir.RankedTensorType(self.op.results[0].type).shape)
        return [size or 1 for size in self.generic.static_sizes()]

    @property
    def reductions(self) -> tuple[int, ...]:
        """Reduction loops."""
        return () if self.generic is None else self.generic.reductions

    def nanoseconds(self, machine: Machine) -> float:
        """Returns a rough estimate of the time on one core."""
        moved = sum(
            _bytes(value)
            for value in [*self.op.operands, *self.op.results]
            if isinstance(value.type, ir.RankedTensorType)
        )
        costly = self.generic is not None and is_costly(self.generic)
        return elementwise_ns(machine, moved, math.prod(self.sizes) if costly else 0)


def steps_of(kernel: ir.Operation) -> list[LinalgStep]:
    """Returns the linalg ops of a kernel in order, numbered."""
    found = [op for op in walk(kernel) if op.name in ("linalg.generic", "linalg.fill")]
    for number, op in enumerate(found):
        discardable.POSITION.write(op, number)
    return [LinalgStep(op, number) for number, op in enumerate(found)]


def _bytes(value: ir.Value) -> int:
    kind = ir.RankedTensorType(value.type)
    element = kind.element_type
    width = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    return math.prod(kind.shape) * width // 8


def parallel_tile(
    sizes: Sequence[int],
    parallel: Sequence[int],
    nanoseconds: float,
    multiple: int,
    whole: Collection[int] = (),
    most: int = MOST_BLOCKS,
) -> list[int]:
    """Returns tile sizes (0: whole) that cut the outer parallel loops into blocks; [] if one block is enough.

    Args:
        sizes: extents of the loops.
        parallel: loops that may be cut, outermost first.
        nanoseconds: time of the whole work.
        multiple: number that a tile of the innermost loop should be a multiple of.
        whole: other loops to which `multiple` applies.
        most: maximum useful number of blocks.
    """
    return tile_of_blocks(sizes, parallel, min(most, elementwise_blocks(nanoseconds)), multiple, whole)


def tile_of_blocks(
    sizes: Sequence[int], parallel: Sequence[int], wanted: int, multiple: int, whole: Collection[int] = ()
) -> list[int]:
    """Returns tile sizes (0: whole) that cut the parallel loops into about `wanted` blocks; see `parallel_tile`."""
    tile = [0] * len(sizes)
    for dim in parallel:
        if wanted < 2:
            break
        step = multiple if dim == len(sizes) - 1 or dim in whole else 1
        counts = [count for count in range(1, 2 * wanted + 1) if sizes[dim] % (count * step) == 0]
        count = min(counts, key=lambda count: _misfit(count, wanted), default=1)
        if count > 1:
            tile[dim] = sizes[dim] // count
            wanted //= count
    return tile if any(tile) else []


def _misfit(count: int, wanted: int) -> float:
    """Returns a penalty for a number of blocks: too many, too few, or odd, which leaves a thread idle."""
    return max(count / wanted, wanted / count) * (1 if count % 2 == 0 else 1 + 1 / count)


def loop_parameters(kernel: ir.Operation, target: Target, **parameters: int | list) -> dict[str, Any]:
    """Returns the parameters of a schedule whose ops become vector loops; parameters in the kernel's attribute win."""
    return {"vector_bytes": target.vector_bytes, "unroll": 4, **parameters, **given_parameters(kernel)}


def script(name: str, parameters: dict[str, int | list], lines: Sequence[str]) -> Schedule:
    """Returns a schedule from the lines of its script."""
    body = "\n".join(f"    {line}" for line in lines)
    text = f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%kernel: !transform.any_op {{transform.readonly}}) {{
{body}
    transform.yield
  }}
}}
"""
    return Schedule(name, parameters, text)


def match(handle: str, number: int) -> str:
    """Returns the script line that binds `handle` to the op with a `stepwell.position`."""
    return (
        f"{handle} = transform.structured.match attributes {{{discardable.POSITION.name} = {number} : i64}} in %kernel"
        " : (!transform.any_op) -> !transform.any_op"
    )


def fuse(handle: str, new: str, tile: Sequence[int], is_parallel: bool) -> str:
    """Returns the script line that tiles the op `handle` with all its producers into loops; the tiled op is `new`."""
    count = 1 if is_parallel else sum(size > 0 for size in tile)
    kinds = ", ".join(["!transform.any_op"] * (count + 1))
    form = " {use_forall}" if is_parallel else ""
    return (
        f"{new}, {new}_loops:{count} = transform.structured.fuse {handle} tile_sizes {list(tile)}{form}"
        f" : (!transform.any_op) -> ({kinds})"
    )


def tile_alone(handle: str, new: str, tile: Sequence[int]) -> str:
    """Returns the script line that tiles only the op `handle` into a parallel loop."""
    return (
        f"{new}, {new}_loop = transform.structured.tile_using_forall {handle} tile_sizes {list(tile)}"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
    )


CLEANUP = (
    "transform.apply_patterns to %kernel {",
    "  transform.apply_patterns.canonicalization",
    "  transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice",
    "} : !transform.any_op",
    "transform.apply_cse to %kernel : !transform.any_op",
)

FOLD_EMPTY = (
    "transform.apply_patterns to %kernel {",
    "  transform.apply_patterns.tensor.fold_tensor_empty",
    "} : !transform.any_op",
)
"""Gives every block temporaries of its own size."""
