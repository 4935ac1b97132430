"""Backward liveness analysis: the live prefix of every dimension, as an expression over symbolic sizes.

All values are computed correctly in full without it; the analysis only lets kernels stop early.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects import discardable
from ...dialects.stepwell.attention import AttentionOp
from ...dialects.stepwell.elementwise import MaskOp
from ...dialects.stepwell.paging import PagedAttentionOp
from ...sizes.expressions import evaluate
from ..infra.base import PassError
from ..ir.functions import body_of, dictionaries
from ..ir.named_ops import ops_named
from ..ir.rewriting import defining_op
from ..ir.values import shape_of
from .demand_rules import keys_of, keys_with_data, rule_of
from .masks import masked_axis
from .passed_on import PASSING, passed_on
from .prefixes import Prefix, all_of, larger

TABLE_INPUT = discardable.TABLE.name
"""Name of the input of @main that holds the values of the table of extents."""

MOST_ENTRIES = 256
"""Maximum number of entries in the table of extents."""


def kernel_of(op: ir.Operation) -> ir.Operation:
    """The function that contains an op."""
    while op.name != "func.func" and op.parent is not None:
        op = op.parent.operation
    return op


def varying_rows(kernel: ir.Operation, shape: Sequence[int]) -> set[int]:
    """The dimensions of a kernel's result whose live rows are not contiguous: varying inner dimensions.

    A loop that merges such a dimension with the one before it would also visit the padding between the rows.
    """
    if not discardable.EXTENTS.is_on(kernel):
        return set()
    return {
        axis
        for axis, entry in enumerate(discardable.EXTENTS.required(kernel))
        if entry >= 0 and any(size != 1 for size in shape[:axis])
    }


_MAX_ITERATIONS = 2
"""Number of iterations of a loop's analysis after which a prefix that still grows is widened to the whole dimension."""

_Needed = dict[ir.Value, list[Prefix]]

_KEYS = {AttentionOp.OPERATION_NAME: (1, 2), PagedAttentionOp.OPERATION_NAME: (5, 3)}
"""The operand and the dimension with the number of keys, of each attention."""


class Demand:
    """The live prefixes of the values of a function, and the table of extents that holds their expressions."""

    def __init__(self, module: ir.Operation, main: ir.Operation) -> None:
        """Analyses all of @main."""
        self._module = module
        self._table: list[Any] = read_table(module)
        self._typical = list(discardable.TYPICAL_SIZES.read(module, ()))
        self._needed: _Needed = {}
        self._data: _Needed = {}
        self._full_readers: dict[ir.Value, str] = {}
        # Collected now, because the masks are still ops; later they are results of kernels.
        self._keys: dict[ir.Value, tuple[int, int]] = {}
        if self._table:
            self._visit(main, self._needed, is_exact=False)
            self._visit(main, self._data, is_exact=True)
            for name, (operand, axis) in _KEYS.items():
                for op in ops_named(main, name):
                    prefix = keys_of(op, self._table)
                    entry = self._entry(prefix)
                    if entry >= 0:
                        self._keys[op.results[0]] = entry, shape_of(op.operands[operand])[axis]

    @property
    def is_partial(self) -> bool:
        """True if sizes vary, so that tensors may contain padding."""
        return bool(self._table)

    def entries(self, value: ir.Value) -> list[int] | None:
        """Per dimension the table entry of the live extent, -1 for all; None if the whole value is live.

        An extent for which the table has no entry left counts as all.
        """
        found = [self._entry(prefix) for prefix in self._needed.get(value, ())]
        return found if max(found, default=-1) >= 0 else None

    def data(self, value: ir.Value) -> list[Prefix]:
        """Per dimension the extent that must hold correct data, None for all; [] if the value has no reader."""
        return self._data.get(value, [])

    def entry(self, prefix: Prefix) -> int:
        """The table entry of an expression, added if missing; -1 for None.

        Raises:
            PassError: the table is full.
        """
        found = self._entry(prefix)
        if found < 0 and prefix is not None:
            raise PassError(f"more than {MOST_ENTRIES} numbers depend on the sizes", self._module.location)
        return found

    def why_whole(self, value: ir.Value) -> str | None:
        """The op that needs the whole value although only a part of its result is live; None if there is none."""
        return self._full_readers.get(value)

    def kept(self, group: Sequence[ir.Operation]) -> list[int]:
        """Per dimension the table entry of the index from which the result of a group is 0; -1 if unknown."""
        value = group[-1].results[0]
        found = [-1] * len(shape_of(value))
        for axis, (prefix, needed) in enumerate(
            zip(self._data.get(value, ()), self._needed.get(value, ()), strict=True)
        ):
            if prefix != needed:
                found[axis] = self._entry(prefix)
        while (masked := defining_op(value, MaskOp)) is not None and masked.otherwise == 0:
            axis = masked_axis(masked)
            if axis is not None and masked.extent >= 0:
                found[axis] = masked.extent
            value = masked.input
        return found

    def typical(self, value: ir.Value, kept: Sequence[int]) -> list[list[int]]:
        """The extent of a value to compute at each of the representative sizes, for each dimension."""
        sizes = shape_of(value)
        prefixes = [
            prefix if entry < 0 else self._table[entry]
            for prefix, entry in zip(self._needed.get(value) or all_of(value), kept, strict=True)
        ]
        return [
            [
                size if prefix is None else min(size, evaluate(prefix, given))
                for size, prefix in zip(sizes, prefixes, strict=True)
            ]
            for given in self._typical
        ]

    def keys(self, group: Sequence[ir.Operation]) -> tuple[int, int] | None:
        """The table entry of the number of keys that a kernel's attention needs, and their total; None for all."""
        return next((self._keys[op.results[0]] for op in group if op.results[0] in self._keys), None)

    def _entry(self, prefix: Prefix) -> int:
        if prefix is None:
            return -1
        if prefix not in self._table:
            if len(self._table) >= MOST_ENTRIES:
                return -1
            self._table.append(prefix)
            discardable.TABLE.write(self._module, self._table)
        return self._table.index(prefix)

    def _visit(self, main: ir.Operation, found: _Needed, is_exact: bool) -> None:
        """Finds the live prefix of each value; if not `is_exact`, includes padding that must hold finite numbers."""
        *operations, returned = [op.operation for op in body_of(main).operations]
        for value, attributes in zip(returned.operands, dictionaries(main, "res_attrs"), strict=True):
            entries = discardable.EXTENTS.read(attributes, ())
            _require(found, value, [None if entry < 0 else self._table[entry] for entry in entries] or all_of(value))
        self._visit_all(operations, found, is_exact)

    def _visit_all(
        self, operations: Sequence[ir.Operation], found: _Needed, is_exact: bool, known_only: bool = False
    ) -> None:
        """Visits ops from the last one up; with `known_only`, skips ops without a known live prefix."""
        for op in reversed(operations):
            if op.name in PASSING:
                self._visit_inside(op, found, is_exact, known_only)
            elif _is_read(op) and not (known_only and _is_unknown(op, found)):
                self._visit_one(op, found, is_exact)

    def _visit_one(self, op: ir.Operation, found: _Needed, is_exact: bool) -> None:
        rule = rule_of(op)
        for value in op.results:
            if value in found:
                found[value] = _without_small_savings(found[value], shape_of(value))
        needed = [found.get(value) or all_of(value) for value in op.results]
        is_partial = any(prefix is not None for prefixes in needed for prefix in prefixes)
        for index, value in enumerate(op.operands):
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            prefixes = list(rule(op, index, needed[0], self._table)) if rule else all_of(value)
            keys = keys_with_data(op, index, self._table) if is_exact else None
            if keys is not None:
                prefixes[2] = keys
            _require(found, value, prefixes)
            if is_partial and not rule and index == 0:
                self._full_readers.setdefault(value, f"all of it is needed by '{op.name}'")

    def _visit_inside(self, op: ir.Operation, found: _Needed, is_exact: bool, known_only: bool) -> None:
        """Visits a loop, or branches, until the prefixes that one iteration needs of the previous one are stable.

        The first round skips values without a known live prefix: those that one iteration passes to the next.
        """
        passed = passed_on(op)
        receivers = [value for _, values in passed for value in values]
        for only in (True,) if known_only else (True, False):
            for count in itertools.count():
                before = [found.get(value) for value in receivers]
                for value, values in passed:
                    known = [found[item] for item in values if item in found]
                    for prefixes in known or ([] if only else [all_of(value)]):
                        _require(found, value, prefixes)
                for region in reversed(list(op.regions)):
                    for block in region:
                        self._visit_all([item.operation for item in block.operations][:-1], found, is_exact, only)
                if before == [found.get(value) for value in receivers]:
                    break
                if count >= _MAX_ITERATIONS:
                    _widen(found, receivers, before)


def _is_read(op: ir.Operation) -> bool:
    """Returns whether a result of an op is read: some views have no readers left."""
    return any(next(iter(value.uses), None) is not None for value in op.results)


def _is_unknown(op: ir.Operation, found: _Needed) -> bool:
    tensors = [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
    return bool(tensors) and not any(value in found for value in tensors)


def _require(found: _Needed, value: ir.Value, prefixes: Sequence[Prefix]) -> None:
    known = found.get(value)
    clipped = [
        None if prefix is None or (isinstance(prefix, int) and prefix >= size) else prefix
        for prefix, size in zip(prefixes, shape_of(value), strict=True)
    ]
    found[value] = clipped if known is None else [larger(*pair) for pair in zip(known, clipped, strict=True)]


def _without_small_savings(prefixes: Sequence[Prefix], shape: Sequence[int]) -> list[Prefix]:
    """The prefixes, but the whole dimension for a constant of at least half of it: a loop with a static end is faster.

    Called once all readers of the value are known: a constant and a symbolic prefix together are symbolic.
    """
    return [
        None if isinstance(prefix, int) and 2 * prefix >= size else prefix
        for prefix, size in zip(prefixes, shape, strict=True)
    ]


def _widen(found: _Needed, values: Sequence[ir.Value], before: Sequence[list[Prefix] | None]) -> None:
    """Widens to the whole dimension wherever the prefix still grows with each iteration."""
    for value, old in zip(values, before, strict=True):
        new = found.get(value)
        if old is not None and new is not None:
            found[value] = [one if one == other else None for one, other in zip(old, new, strict=True)]


def read_table(module: ir.Operation) -> list[Any]:
    """The expressions of the table of extents; [] if no sizes vary."""
    return list(discardable.TABLE.read(module, ()))
