"""How much of each tensor anybody needs, where sizes vary: a prefix along each dimension, from the outputs up.

Everything that is computed is right as a whole; what is said here only lets kernels stop early.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects.stepwell.elementwise import KeepOp
from ...dialects.stepwell.normalization import AttentionOp
from ...runtime.expressions import evaluate
from ..functions import body_of, dictionaries, strings
from ..named_ops import ops_named
from ..rewriting import defining_op
from .demand_rules import keys_of, keys_with_data, rule_of
from .masks import masked_axis
from .passed_on import PASSING, passed_on
from .prefixes import Prefix, all_of, larger, sizes_of

TABLE = "stepwell.table"
"""The attribute of a module that holds the expressions of the table of extents, each as JSON."""

KEYS = "stepwell.keys"
"""The attribute of kernels that attend to some of their keys: the entry, and how many keys there are."""

MOST_ENTRIES = 256
"""The table of extents has room for so many numbers."""

SKIPPED = "stepwell.skipped"
"""The attribute of kernels that reduce what they read through masks: argument, dimension, and entry, for each mask."""

KEPT = "stepwell.kept"
"""The attribute of kernels whose result is 0 beyond the data: per dimension the entry of the table that says where
data ends, or -1."""

TYPICAL = "stepwell.typical"
"""The attribute of a module that holds some sizes a call may have, as JSON; that of a kernel says how much of its
result is needed at each of them, per dimension."""

RANGES = "stepwell.ranges"
"""The attribute of a module that holds the least and the greatest value of each size, and the step, as JSON."""

UNBOUNDED = "stepwell.unbounded"
"""The attribute of kernels that says of what they do all, whatever the sizes of a call, and why."""

EXTENTS = "stepwell.extents"
"""The attribute of results of @main, and of kernels: per dimension the entry of the table, or -1 for all of it."""


def kernel_of(op: ir.Operation) -> ir.Operation:
    """The function that an op is in."""
    while op.name != "func.func" and op.parent is not None:
        op = op.parent.operation
    return op


def varying_rows(kernel: ir.Operation, shape: Sequence[int]) -> set[int]:
    """The dimensions of a kernel's result, of some shape, whose rows of data are apart: those that vary inside others.

    Loops over one of these and the dimension before it would walk through what lies between the rows.
    """
    if EXTENTS not in kernel.attributes:
        return set()
    return {
        axis
        for axis, entry in enumerate(ir.DenseI64ArrayAttr(kernel.attributes[EXTENTS]))
        if entry >= 0 and any(size != 1 for size in shape[:axis])
    }


_ROUNDS = 2
"""After so many rounds of a loop what each needs more than the one after it is all there is."""

_Needed = dict[ir.Value, list[Prefix]]


class Demand:
    """What is needed of the values of a function, and the table that says it in numbers."""

    def __init__(self, module: ir.Operation, main: ir.Operation) -> None:
        """Looks at all of @main."""
        self._module = module
        self._table: list[Any] = read_table(module)
        self._typical = [json.loads(text) for text in strings(module.attributes.get(TYPICAL) or ir.ArrayAttr.get([]))]
        self._needed: _Needed = {}
        self._data: _Needed = {}
        self._wholes: dict[ir.Value, str] = {}
        # Found while masks are ops still, and no results of kernels.
        self._keys: dict[ir.Value, tuple[int, int]] = {}
        if self._table:
            self._visit(main, self._needed, is_exact=False)
            self._visit(main, self._data, is_exact=True)
            for op in ops_named(main, AttentionOp.OPERATION_NAME):
                prefix = keys_of(op, self._table)
                if prefix is not None:
                    self._keys[op.results[0]] = self._entry(prefix), sizes_of(op.operands[1])[2]

    @property
    def is_partial(self) -> bool:
        """Whether sizes vary, so that not all of a tensor is data."""
        return bool(self._table)

    def entries(self, value: ir.Value) -> list[int] | None:
        """Per dimension the entry of the table that says how much is needed, -1 for all; None for all of the value."""
        prefixes = self._needed.get(value)
        if prefixes is None or all(prefix is None for prefix in prefixes):
            return None
        return [self._entry(prefix) for prefix in prefixes]

    def data(self, value: ir.Value) -> list[Prefix]:
        """Per dimension how much of a value has to be right; None for all of it, no entries where nobody reads it."""
        return self._data.get(value, [])

    def entry(self, prefix: Prefix) -> int:
        """The entry of the table that an expression has; -1 for none."""
        return self._entry(prefix)

    def why_whole(self, value: ir.Value) -> str | None:
        """Which op needs all of a value, though only a part of what it makes is needed; None where none does."""
        return self._wholes.get(value)

    def kept(self, group: Sequence[ir.Operation]) -> list[int]:
        """Per dimension the entry that says from where on the result of a group is 0, -1 where that is not known."""
        value = group[-1].results[0]
        found = [-1] * len(sizes_of(value))
        for axis, (prefix, needed) in enumerate(
            zip(self._data.get(value, ()), self._needed.get(value, ()), strict=True)
        ):
            if prefix != needed:
                found[axis] = self._entry(prefix)
        while (keep := defining_op(value, KeepOp)) is not None and keep.otherwise == 0:
            axis = masked_axis(keep)
            if axis is not None and keep.extent >= 0:
                found[axis] = keep.extent
            value = keep.input
        return found

    def typical(self, value: ir.Value, kept: Sequence[int]) -> list[list[int]]:
        """How much of a value has to be computed at each of some typical sizes, per dimension."""
        sizes = sizes_of(value)
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
        """The entry that says how many keys the attention of a kernel needs, and how many there are; None for all."""
        return next((self._keys[op.results[0]] for op in group if op.results[0] in self._keys), None)

    def _entry(self, prefix: Prefix) -> int:
        if prefix is None:
            return -1
        if prefix not in self._table:
            self._table.append(prefix)
            texts = [ir.StringAttr.get(json.dumps(item)) for item in self._table]
            self._module.attributes[TABLE] = ir.ArrayAttr.get(texts)
        return self._table.index(prefix)

    def _visit(self, main: ir.Operation, found: _Needed, is_exact: bool) -> None:
        """What is needed of each value; exactly, or with what has to be some number, but no certain one."""
        *operations, returned = [op.operation for op in body_of(main).operations]
        for value, attributes in zip(returned.operands, dictionaries(main, "res_attrs"), strict=True):
            entries = list(ir.DenseI64ArrayAttr(attributes[EXTENTS])) if EXTENTS in attributes else []
            _need(found, value, [None if entry < 0 else self._table[entry] for entry in entries] or all_of(value))
        self._visit_all(operations, found, is_exact)

    def _visit_all(
        self, operations: Sequence[ir.Operation], found: _Needed, is_exact: bool, known_only: bool = False
    ) -> None:
        """Visits ops from the last one up; `known_only`, not those of which nobody has said yet what is needed."""
        for op in reversed(operations):
            if op.name in PASSING:
                self._visit_inside(op, found, is_exact, known_only)
            elif _is_read(op) and not (known_only and _is_unknown(op, found)):
                self._visit_one(op, found, is_exact)

    def _visit_one(self, op: ir.Operation, found: _Needed, is_exact: bool) -> None:
        rule = rule_of(op)
        needed = [found.get(value) or all_of(value) for value in op.results]
        is_partial = any(prefix is not None for prefixes in needed for prefix in prefixes)
        for place, value in enumerate(op.operands):
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            prefixes = list(rule(op, place, needed[0], self._table)) if rule else all_of(value)
            keys = keys_with_data(op, place, self._table) if is_exact else None
            if keys is not None:
                prefixes[2] = keys
            _need(found, value, prefixes)
            if is_partial and not rule and place == 0:
                self._wholes.setdefault(value, f"all of it is needed by '{op.name}'")

    def _visit_inside(self, op: ir.Operation, found: _Needed, is_exact: bool, known_only: bool) -> None:
        """Visits a loop, or branches, until what one round needs of the one before is no more than that gives.

        At first values of which nobody has said yet how much is needed are left out: those are the ones that a round
        takes from another.
        """
        passed = passed_on(op)
        receivers = [value for _, values in passed for value in values]
        for only in (True,) if known_only else (True, False):
            for count in itertools.count():
                before = [found.get(value) for value in receivers]
                for value, values in passed:
                    known = [found[item] for item in values if item in found]
                    for prefixes in known or ([] if only else [all_of(value)]):
                        _need(found, value, prefixes)
                for region in reversed(list(op.regions)):
                    for block in region:
                        self._visit_all([item.operation for item in block.operations][:-1], found, is_exact, only)
                if before == [found.get(value) for value in receivers]:
                    break
                if count >= _ROUNDS:
                    _take_all(found, receivers, before)


def _is_read(op: ir.Operation) -> bool:
    """Whether anybody looks at what an op makes: nobody looks at some views any more."""
    return any(next(iter(value.uses), None) is not None for value in op.results)


def _is_unknown(op: ir.Operation, found: _Needed) -> bool:
    tensors = [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
    return bool(tensors) and not any(value in found for value in tensors)


def _need(found: _Needed, value: ir.Value, prefixes: Sequence[Prefix]) -> None:
    known = found.get(value)
    clipped = [
        None if prefix is None or (isinstance(prefix, int) and prefix >= size) else prefix
        for prefix, size in zip(prefixes, sizes_of(value), strict=True)
    ]
    found[value] = clipped if known is None else [larger(*pair) for pair in zip(known, clipped, strict=True)]


def _take_all(found: _Needed, values: Sequence[ir.Value], before: Sequence[list[Prefix] | None]) -> None:
    """Takes all along the dimensions along which each round needs more than the one after it."""
    for value, old in zip(values, before, strict=True):
        new = found.get(value)
        if old is not None and new is not None:
            found[value] = [one if one == other else None for one, other in zip(old, new, strict=True)]


def read_table(module: ir.Operation) -> list[Any]:
    """The expressions of the table of extents; none where no sizes vary."""
    if TABLE not in module.attributes:
        return []
    return [json.loads(ir.StringAttr(item).value) for item in ir.ArrayAttr(module.attributes[TABLE])]
