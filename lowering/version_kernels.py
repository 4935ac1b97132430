"""`stepwell-version-kernels`: makes versions of kernels if each tile suits only some sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..dialects.registry import view_of
from ..dialects.stepwell.constant import ParameterOp
from ..dialects.stepwell.winograd import WinogradConvOp
from ..machines.caches import resident_bytes
from ..passes.infra.base import Pass, register
from ..passes.infra.state import CompileState
from ..passes.ir.functions import body_of, class_of, computed_extents, kernels_in, main_function
from ..passes.ir.memory_layout import element_bytes
from ..passes.ir.named_ops import ops_named
from ..passes.ir.values import shape_of
from ..passes.kernel.demand import MOST_ENTRIES, read_table, varying_rows
from ..runtime.remarks import VERSIONS
from ..sizes.expressions import Expression, evaluate_all
from ..sizes.ranges import Range, spread_sizes
from .linalg_to_vector.winograd.strips import varies
from .target import Target
from .version_choice import KernelVersions, choose, slowdowns
from .version_plans import TileCost, plans_of

# Minimum fraction of all operations for a kernel to have versions, and the weight of operations of depthwise
# convolutions, each of which loads and stores.
_SHARE, _DEPTHWISE = 0.008, 8

_CLASSES = ("contraction", "convolution", "winograd", "depthwise")

# Maximum number of representative sizes given to a schedule.
_TYPICAL = 16


@register
@dataclass(frozen=True)
class VersionKernelsPass(Pass):
    """Give kernels several versions if sizes vary and no tile suits all of them.

    A tile of twelve rows takes twice as long as needed for six, and nearly twice for thirteen. The number of the
    fastest version at the sizes of a call is an expression over them, and so an entry of the table of extents.
    Versions differ in the sizes that their schedule has to suit, `stepwell.typical`. Those of all kernels are chosen
    together, by the time that they save over the sizes of the range.

        %0 = call @k(%x, %table)
        -->
        %0 = call @k(%x, %table) {stepwell.versions = [@k, @k_version_1], stepwell.choice = 7}

    `stepwell-branch-to-versions` calls the right one. Preconditions: kernels of stepwell ops.

    Attributes:
        target: machine that schedules are for, in the form that `Target.parse` accepts.
    """

    name = "stepwell-version-kernels"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds versions to the kernels of a module."""
        if not discardable.RANGES.is_on(op) or not discardable.TABLE.is_on(op):
            return
        target = Target.parse(self.target)
        table, sizes = (
            read_table(op),
            spread_sizes({name: Range(*values) for name, values in discardable.RANGES.required(op).items()}),
        )
        kernels = list(kernels_in(op))
        works = [_weight(kernel) * _live_part(kernel, table, sizes) for kernel in kernels]
        most = sum(map(_weight, kernels))
        total = np.maximum(np.sum(works, axis=0), 1)  # a size of 0 may leave no work
        is_resident = _weight_bytes(op) <= resident_bytes(target.machine)
        found = [
            (_Versions(kernel, target, table, sizes, is_resident=is_resident), work / total)
            for kernel, work in zip(kernels, works, strict=True)
            if discardable.EXTENTS.is_on(kernel) and _weight(kernel) >= _SHARE * most and class_of(kernel) in _CLASSES
        ]
        found = [(versions, share) for versions, share in found if versions.plans]
        chosen = choose([KernelVersions(versions.costs(), share) for versions, share in found])
        calls = ops_named(main_function(op), "func.call")
        for (versions, _), numbers in zip(found, chosen, strict=True):
            versions.add(calls, numbers, state)
        discardable.TABLE.write(op, table)


class _Versions:
    """The versions of one kernel.

    Attributes:
        plans: the tiles that they may have; empty if no number of rows varies.
    """

    def __init__(
        self,
        kernel: ir.Operation,
        target: Target,
        table: list[Any],
        sizes: Mapping[str, np.ndarray],
        *,
        is_resident: bool,
    ) -> None:
        self._kernel, self._table, self._sizes = kernel, table, sizes
        self._ends = computed_extents(kernel)
        self._rows = self._varying_rows()
        self.plans: list[TileCost] = []
        if self._rows:
            count = _count(sizes)
            found = [np.broadcast_to(evaluate_all(item, sizes), count) for item in self._rows]
            self._row_counts, self._row_count_of = np.unique(np.stack(found, axis=1), axis=0, return_inverse=True)
            self.plans = plans_of(kernel, target, self._row_counts, is_resident=is_resident)

    def costs(self) -> np.ndarray:
        """Returns the cost of each plan at each size [plans, sizes]."""
        return np.array([plan.cost(self._row_counts) for plan in self.plans], float)[:, self._row_count_of]

    def add(self, calls: Sequence[ir.Operation], numbers: Sequence[int], state: CompileState) -> None:
        """Makes versions with some of the plans, marks the calls of the kernel, and says why."""
        plans = [self.plans[number] for number in numbers]
        if len(self._table) >= MOST_ENTRIES:
            plans = plans[:1]
        chosen = np.argmin(
            [_keys(plan, index, len(plans), self._row_counts) for index, plan in enumerate(plans)], axis=0
        )
        kept = np.unique(chosen)
        plans, chosen = [plans[number] for number in kept], np.searchsorted(kept, chosen)[self._row_count_of]
        names, own = [], ir.StringAttr(self._kernel.attributes["sym_name"]).value
        versions = [self._kernel]
        for _ in plans[1:]:
            versions.append(self._kernel.clone(ip=ir.InsertionPoint.after(versions[-1])))
        for number, version in enumerate(versions):
            discardable.TILE_ROWS.write(version, list(plans[number].rows))
            discardable.TYPICAL.write(version, self._typical(chosen == number))
            names.append(f"{own}_version_{number}" if number else own)
            version.attributes["sym_name"] = ir.StringAttr.get(names[-1])
        own_calls = [call for call in calls if ir.FlatSymbolRefAttr(call.attributes["callee"]).value == own]
        for call in own_calls:
            state.found(VERSIONS, discardable.OPS.read(call, ()), self._why(numbers[0], [numbers[k] for k in kept]))
        if len(plans) == 1:
            return
        entry = self._entry(_choice(plans, self._rows))
        for call in own_calls:
            discardable.VERSIONS.write(call, names)
            discardable.CHOICE.write(call, entry)

    def _why(self, one: int, numbers: Sequence[int]) -> str:
        """Returns the reason for the number of versions: their slowdowns against the best tile of each size."""
        ratios = slowdowns(self.costs())
        alone, together = (ratios[list(some)].min(axis=0).max() for some in ((one,), numbers))
        if len(numbers) == 1:
            return f"one tile serves all sizes: it takes at most {alone:.2f} times as long as the best one of a size"
        return (
            f"{len(numbers)} versions take at most {together:.2f} times as long as the best tile of a size, by "
            f"estimate; one tile for all sizes would take up to {alone:.2f} times as long"
        )

    def _varying_rows(self) -> list[Expression]:
        """Returns the numbers of rows along the last two loops over rows, as expressions; [] if nothing varies.

        Rows of a Winograd convolution are tiles, of all images in one loop.
        """
        groups = self._row_loops()
        if not any(self._ends[axis] >= 0 for group in groups for axis in group):
            return []
        if class_of(self._kernel) == "winograd":
            return [1, self._winograd_tiles()] if varies(self._kernel) else []
        rows, shape = [], self._shape
        for first, *others in groups[-2:]:
            count = math.prod(shape[axis] for axis in others)
            extent: Expression = self._table[self._ends[first]] if self._ends[first] >= 0 else shape[first]
            rows.append(extent if count == 1 else ["*", extent, count])
        return [1, *rows][-2:]

    def _winograd_tiles(self) -> Expression:
        """Returns the number of tiles of all images."""
        views = [view_of(op.operation) for op in body_of(self._kernel).operations]
        (op,) = (view for view in views if isinstance(view, WinogradConvOp))
        found: Expression = 1
        for size, end, tile in zip(self._shape, self._ends, (1, *op.extents), strict=False):
            found = ["*", found, ["ceildiv", self._table[end] if end >= 0 else size, tile]]
        return found

    def _row_loops(self) -> list[list[int]]:
        """Returns the dimensions of the result that each loop over rows covers: products merge several of them."""
        shape, kind = self._shape[:-1], class_of(self._kernel)
        groups: list[list[int]] = []
        apart = varying_rows(self._kernel, self._shape)
        for axis, size in enumerate(shape):
            if size == 1:
                continue
            if groups and axis not in apart and kind == "contraction":
                groups[-1].append(axis)
            else:
                groups.append([axis])
        return groups

    @property
    def _shape(self) -> list[int]:
        return _shape_of(self._kernel)

    def _typical(self, suited: np.ndarray) -> list[tuple[int, ...]]:
        """Returns the extents of the result at some of the sizes that a version is for, given as a mask."""
        found = np.stack(_extents(self._kernel, self._table, self._sizes), axis=1)[suited]
        ordered = sorted(map(tuple, np.unique(found, axis=0).tolist()), key=lambda item: (math.prod(item), item))
        step = -(-len(ordered) // _TYPICAL)
        typical = dict.fromkeys([*ordered[::step], ordered[-1]])
        return list(typical)

    def _entry(self, expression: Expression) -> int:
        if expression not in self._table:
            self._table.append(expression)
        return self._table.index(expression)


def _keys(plan: TileCost, number: int, count: int, row_counts: np.ndarray) -> np.ndarray:
    """Returns the costs of a plan for some numbers of rows, distinct from those of all other plans."""
    return plan.cost(row_counts) * count + number


def _choice(plans: Sequence[TileCost], rows: Sequence[Expression]) -> Expression:
    """Returns an expression for the number of the cheapest plan."""
    least: Expression | None = None
    for number, plan in enumerate(plans):
        key = ["+", ["*", plan.expression(rows), len(plans)], number]
        least = key if least is None else ["min", least, key]
    assert least is not None
    return ["mod", least, len(plans)]


def _count(sizes: Mapping[str, np.ndarray]) -> int:
    return next(iter(sizes.values())).size


def _shape_of(kernel: ir.Operation) -> list[int]:
    kind = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value)
    return list(ir.RankedTensorType(kind.results[0]).shape)


def _extents(kernel: ir.Operation, table: Sequence[Any], sizes: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the extents that a kernel computes at each size, for each dimension of its result."""
    return [
        np.broadcast_to(size if end < 0 else np.minimum(size, evaluate_all(table[end], sizes)), _count(sizes))
        for size, end in zip(_shape_of(kernel), computed_extents(kernel), strict=True)
    ]


def _live_part(kernel: ir.Operation, table: Sequence[Any], sizes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the fraction of its result that a kernel computes at each size."""
    whole = np.ones(_count(sizes))
    if not discardable.EXTENTS.is_on(kernel):
        return whole
    return np.prod([whole, *_extents(kernel, table, sizes)], axis=0) / math.prod(_shape_of(kernel))


def _weight_bytes(module: ir.Operation) -> int:
    """Returns the size of all parameters of a program in bytes."""
    parameters = ops_named(main_function(module), ParameterOp.OPERATION_NAME)
    return sum(math.prod(shape_of(op.results[0])) * element_bytes(op.results[0].type) for op in parameters)


def _weight(kernel: ir.Operation) -> int:
    """Returns the number of operations of a kernel, weighted by how long they take."""
    flops = discardable.KERNEL.required(kernel).flops or 0
    return flops * (_DEPTHWISE if class_of(kernel) == "depthwise" else 1)
