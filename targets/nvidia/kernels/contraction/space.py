"""The search space of a contraction on a GPU: tiles of blocks and warps, depth and number of stages, and split sums.

A candidate is the set of parameters that a launch records as `stepwell.schedule`, as `choose` selects them. Layouts in
shared memory (swizzles) follow from the tiles, so that no candidate has bank conflicts; kernels have no clusters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir import ir

from .....lowering.linalg_to_vector.spaces.space import Axis, Parameters, RefusedError, SearchSpace, SpaceChoice, log2
from .....machines.gpus import LINE_BYTES, THREAD_REGISTERS, Capability
from ...emission.views import memories
from ...target import GpuTarget
from .choose import ContractionRequest, choose, shared_bytes, wgmma_problem
from .cost import cycles, gathering, occupancy, registers
from .emit import choose_numbers, request_of
from .matching import contraction_of
from .split_sums import best_split, can_split, divisions, part_of
from .tiles import Tiling
from .tuned import PARTS

_MOST_WARPS, _LARGEST = 8, 256
"""Maximum number of multiplying warps of a block, and of rows or columns of its tile: those that kernels are tested
with."""
_FEWEST_STAGES = 2
"""Stages of a pipeline: one is read while the other is filled."""
_FMA_LANES = (4, 8)
"""Threads of a warp along rows and columns in exact products, each with up to 8 x 8 sums."""
_LEAST_SUMS, _MOST_SUMS = 4, 8
"""Sums of a thread along a dimension."""
_GROUP_ROWS, _TENSOR_ROWS = 64, 16
"""Rows of the product of a warp group, and of a warp's tensor cores."""


@dataclass(frozen=True)
class ContractionSpace(SearchSpace):
    """The schedules of one contraction on one GPU.

    Attributes:
        request: the sizes, types and reads of the contraction.
        capability: capabilities of the GPU.
        splits: the numbers of parts into which its sums can be split.
    """

    request: ContractionRequest = dataclasses.field(kw_only=True)
    capability: Capability = dataclasses.field(kw_only=True)
    splits: tuple[int, ...] = (1,)

    @staticmethod
    def of(request: ContractionRequest, depths: Sequence[int], target: GpuTarget) -> ContractionSpace:
        """Returns the space of a contraction.

        Args:
            request: the request for its tiling.
            depths: sizes of the dimensions that are summed over, the innermost last.
            target: the GPU.
        """
        split = best_split(request, depths, target)
        parts = 1 if split is None else split[1]
        whole = replace(request, problem=part_of(request.problem, parts))
        default = {**vars(choose(whole, target.capability)), PARTS: parts}
        splits = (1, *sorted({parts for _, parts in divisions(depths, request.problem.depth)}))
        sides, line = (16, 32, 64, 128, 256), LINE_BYTES // request.element_bytes
        methods = ("fma",) if request.compute == "f32" else ("mma", "wgmma")
        values: dict[str, Sequence[Any]] = {
            "method": [name for name in methods if name != default["method"]],
            "rows": sides,
            "columns": sides[1:],
            "depth": (16, 32) if request.compute == "f32" else (line // 2, line),
            "warp_rows": sides[:3],
            "warp_columns": (*sides[:3], 128, 256),
            "stages": range(_FEWEST_STAGES, 9),
            PARTS: [count for count in splits if count != parts],
        }
        axes = tuple(Axis.of(name, found) for name, found in values.items() if found)
        return ContractionSpace(
            target.machine, default, axes, request=request, capability=target.capability, splits=splits
        )

    def tiling(self, parameters: Parameters) -> Tiling:
        """Returns the tiles of a schedule."""
        found = self.complete(parameters)
        return Tiling(**{item.name: found[item.name] for item in dataclasses.fields(Tiling)})

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        made = self.changed({name: value for name, value in choice.items() if value is not None})
        tiling, parts = self.tiling(made), self.complete(made)[PARTS]
        if parts not in self.splits:
            raise RefusedError(f"the sums cannot be split into {parts} parts")
        reason = self._obstacle(tiling)
        if reason is not None:
            raise RefusedError(reason)
        return made

    def _obstacle(self, tiling: Tiling) -> str | None:
        """The reason why a block of these tiles cannot run; None if it can."""
        request, machine = self.request, self.capability
        if tiling.rows % tiling.warp_rows or tiling.columns % tiling.warp_columns:
            return (
                f"a tile of {tiling.rows} x {tiling.columns} does not consist of warps' tiles of {tiling.warp_rows} x "
                f"{tiling.warp_columns}"
            )
        if tiling.method == "wgmma":
            reason = self._group_obstacle(tiling)
        elif (tiling.method == "fma") != (request.compute == "f32"):
            reason = f"{tiling.method} does not multiply {request.compute}"
        else:
            reason = self._warp_obstacle(tiling)
        if reason is not None:
            return reason
        shared, needed = shared_bytes(tiling, request.element_bytes), registers(tiling, request.units)
        if needed > THREAD_REGISTERS:
            return f"a thread needs {needed} of {THREAD_REGISTERS} registers"
        if shared > machine.shared_bytes:
            return f"a block needs {shared} of {machine.shared_bytes} bytes of shared memory"
        if not occupancy(tiling, shared, machine, request.units).blocks:
            return "a multiprocessor has not enough registers or threads for a block"
        return None

    def _group_obstacle(self, tiling: Tiling) -> str | None:
        request = self.request
        if not self.capability.has_wgmma:
            return "the GPU has no wgmma"
        if not request.by_boxes or (request.element_bytes != 2 and request.transposed):
            return "the copy engine cannot copy its operands for wgmma"
        if tiling.warp_rows != _GROUP_ROWS or tiling.warp_columns != tiling.columns:
            return f"a warp group multiplies {_GROUP_ROWS} rows by all columns of the tile"
        if tiling.rows > 2 * _GROUP_ROWS or tiling.columns < _GROUP_ROWS or tiling.stages <= _FEWEST_STAGES:
            return "warp groups take 64 or 128 rows, at least 64 columns and 3 stages"
        if tiling.depth * request.element_bytes != LINE_BYTES:
            return f"a stage of wgmma has lines of {LINE_BYTES} bytes"
        return None

    def _warp_obstacle(self, tiling: Tiling) -> str | None:
        if tiling.warps > _MOST_WARPS:
            return f"a block of {tiling.warps} warps is larger than {_MOST_WARPS}"
        if (tiling.rows, tiling.columns) == (_LARGEST, _LARGEST):
            return "a tile of 256 x 256 has more sums than a block's registers"
        if tiling.method == "fma":
            down, across = _FMA_LANES
            sums = tiling.warp_rows // down, tiling.warp_columns // across
            if max(sums) > _MOST_SUMS:
                return f"a thread would have {sums[0]} x {sums[1]} sums, more than {_MOST_SUMS} x {_MOST_SUMS}"
            return None if min(sums) >= _LEAST_SUMS else f"a thread would have only {sums[0]} x {sums[1]} sums"
        if tiling.warp_columns < 2 * _TENSOR_ROWS or max(tiling.warp_rows, tiling.warp_columns) > _GROUP_ROWS:
            return "the tile of a warp has 16 to 64 rows and 32 to 64 columns"
        return None

    def features(self, parameters: Parameters) -> dict[str, float]:
        tiling, parts, request = self.tiling(parameters), self.complete(parameters)[PARTS], self.request
        problem = part_of(request.problem, parts)
        shared = shared_bytes(tiling, request.element_bytes)
        held = occupancy(tiling, shared, self.capability, request.units)
        blocks = math.ceil(problem.rows / tiling.rows) * math.ceil(problem.columns / tiling.columns) * problem.batch
        found = {name: log2(float(value)) for name, value in vars(tiling).items() if name != "method"}
        return {
            **found,
            "is wgmma": float(tiling.method == "wgmma"),
            "parts": log2(parts),
            "resident warps": float(held.warps),
            "waves": log2(blocks / max(1, held.blocks * self.capability.multiprocessors)),
            "shared bytes": log2(shared),
            "intensity": log2(tiling.rows * tiling.columns / (tiling.rows + tiling.columns)),
            "flops": log2(problem.flops),
        }

    def predicted(self, parameters: Parameters) -> float | None:
        """Returns the estimated cycles of a schedule, by the model that `choose` decides by."""
        tiling, parts, request = self.tiling(parameters), self.complete(parameters)[PARTS], self.request
        problem, size = part_of(request.problem, parts), request.element_bytes
        whole = wgmma_problem(problem, request.window, tiling) if tiling.method == "wgmma" else problem
        shared = shared_bytes(tiling, size)
        spent = cycles(whole, tiling, request.compute, size, shared, self.capability, request.units)
        return spent + (gathering(request.problem, parts, self.capability) if parts > 1 else 0.0)


def space_of(kernel: ir.Operation, target: GpuTarget) -> ContractionSpace | None:
    """Returns the space of a kernel's contraction; None if it has none, or if another schedule computes it."""
    contraction = contraction_of(kernel)
    if contraction is None or choose_numbers(kernel, target) is None:
        return None
    request = request_of(contraction, memories(kernel), target)
    if request is None:
        return None
    depths = contraction.sizes(contraction.depth) if can_split(contraction) else ()
    return ContractionSpace.of(request, depths, target)
