"""`stepwell-version-kernels`: makes versions of kernels if each tile suits only some sizes; a call runs one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..passes.infra.base import Pass, register
from ..passes.infra.state import CompileState
from ..passes.ir.functions import class_of, kernels_in, main_function
from ..passes.ir.named_ops import ops_named
from ..passes.kernel.demand import MOST_ENTRIES, read_table, varying_rows
from ..sizes.expressions import Expression, evaluate
from .target import Target
from .version_plans import TileCost, plans_of

# Number of least sizes, and of all sizes, that are considered along each dimension.
_LEAST_SIZES, _SIZES = 12, 28

# Minimum fraction of all operations for a kernel to have versions. Operations of depthwise convolutions
# count this many times, as each of them loads and stores.
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
    Versions differ in the sizes that their schedule has to suit, `stepwell.typical`.

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
        table, sizes = read_table(op), _sizes(discardable.RANGES.required(op))
        kernels = [kernel for kernel in kernels_in(op) if discardable.EXTENTS.is_on(kernel)]
        calls = ops_named(main_function(op), "func.call")
        total = sum(_weight(kernel) for kernel in kernels_in(op))
        for kernel in kernels:
            if _weight(kernel) >= _SHARE * total and class_of(kernel) in _CLASSES:
                _Versions(kernel, target, table, sizes).add(calls)
        discardable.TABLE.write(op, table)


class _Versions:
    """The versions of one kernel."""

    def __init__(self, kernel: ir.Operation, target: Target, table: list[Any], sizes: Sequence[dict[str, int]]) -> None:
        self._kernel, self._target, self._table, self._sizes = kernel, target, table, sizes
        entries = discardable.EXTENTS.required(kernel)
        kept = discardable.KEPT.read(kernel, [-1] * len(entries))
        self._ends = [end if end >= 0 else entry for entry, end in zip(entries, kept, strict=True)]

    def add(self, calls: Sequence[ir.Operation]) -> None:
        """Makes the versions, and marks the calls of the kernel."""
        rows = self._rows()
        if not rows:
            return
        found = [tuple(evaluate(item, given) for item in rows) for given in self._sizes]
        places = np.array(sorted(set(found)))
        plans = plans_of(self._kernel, self._target, places)
        if not plans or len(self._table) >= MOST_ENTRIES:
            return
        chosen = np.argmin([_keys(plan, place, len(plans), places) for place, plan in enumerate(plans)], axis=0)
        kept = np.unique(chosen)
        plans, chosen = [plans[number] for number in kept], np.searchsorted(kept, chosen)
        names, own = [], ir.StringAttr(self._kernel.attributes["sym_name"]).value
        versions = [self._kernel]
        for _ in plans[1:]:
            versions.append(self._kernel.clone(ip=ir.InsertionPoint.after(versions[-1])))
        number_at = {tuple(place): number for place, number in zip(places.tolist(), chosen.tolist(), strict=True)}
        for number, version in enumerate(versions):
            suited = [given for given, at in zip(self._sizes, found, strict=True) if number_at[at] == number]
            discardable.TILE_ROWS.write(version, list(plans[number].rows))
            discardable.TYPICAL.write(version, self._typical(suited))
            names.append(f"{own}_version_{number}" if number else own)
            version.attributes["sym_name"] = ir.StringAttr.get(names[-1])
        if len(plans) == 1:
            return
        entry = self._entry(_choice(plans, rows))
        for call in calls:
            if ir.FlatSymbolRefAttr(call.attributes["callee"]).value == own:
                discardable.VERSIONS.write(call, names)
                discardable.CHOICE.write(call, entry)

    def _rows(self) -> list[Expression]:
        """Returns the numbers of rows along the last two loops over rows, as expressions; [] if nothing varies."""
        groups = self._row_loops()
        if not any(self._ends[axis] >= 0 for group in groups for axis in group):
            return []
        rows, shape = [], self._shape
        for first, *others in groups[-2:]:
            count = math.prod(shape[axis] for axis in others)
            extent: Expression = self._table[self._ends[first]] if self._ends[first] >= 0 else shape[first]
            rows.append(extent if count == 1 else ["*", extent, count])
        return [1, *rows][-2:]

    def _row_loops(self) -> list[list[int]]:
        """Returns the dimensions of the result that each loop over rows covers: products merge several of them."""
        shape, kind = self._shape[:-1], class_of(self._kernel)
        if kind == "winograd":
            return [[axis] for axis in range(len(shape))]
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
        kind = ir.FunctionType(ir.TypeAttr(self._kernel.attributes["function_type"]).value)
        return list(ir.RankedTensorType(kind.results[0]).shape)

    def _typical(self, suited: Sequence[dict[str, int]]) -> list[tuple[int, ...]]:
        """Returns the extents of the result at some of the sizes that a version is for."""
        counts = {
            tuple(
                size if end < 0 else min(size, evaluate(self._table[end], given))
                for size, end in zip(self._shape, self._ends, strict=True)
            )
            for given in suited
        }
        ordered = sorted(counts, key=lambda item: (math.prod(item), item))
        step = -(-len(ordered) // _TYPICAL)
        typical = dict.fromkeys([*ordered[::step], ordered[-1]])
        return list(typical)

    def _entry(self, expression: Expression) -> int:
        if expression not in self._table:
            self._table.append(expression)
        return self._table.index(expression)


def _keys(plan: TileCost, number: int, count: int, places: np.ndarray) -> np.ndarray:
    """Returns the costs of a plan for some numbers of rows, made unique so that no two plans cost the same."""
    return plan.cost(places) * count + number


def _choice(plans: Sequence[TileCost], rows: Sequence[Expression]) -> Expression:
    """Returns an expression for the number of the cheapest plan."""
    least: Expression | None = None
    for number, plan in enumerate(plans):
        key = ["+", ["*", plan.expression(rows), len(plans)], number]
        least = key if least is None else ["min", least, key]
    assert least is not None
    return ["mod", least, len(plans)]


def _sizes(ranges: dict[str, Sequence[int]]) -> list[dict[str, int]]:
    """Returns sizes across the ranges: the least ones, and increasingly sparse ones beyond."""
    found: list[dict[str, int]] = [{}]
    for name, (low, high, step) in ranges.items():
        count = (high - low) // step
        steps = {*range(min(count, _LEAST_SIZES) + 1), count}
        if count > _LEAST_SIZES:
            steps |= {round(item) for item in np.geomspace(_LEAST_SIZES, count, _SIZES - _LEAST_SIZES)}
        found = [{**item, name: low + number * step} for item in found for number in sorted(steps)]
    return found


def _weight(kernel: ir.Operation) -> int:
    """Returns the number of operations of a kernel, weighted by how long they take."""
    flops = discardable.KERNEL.required(kernel).flops or 0
    return flops * (_DEPTHWISE if class_of(kernel) == "depthwise" else 1)
