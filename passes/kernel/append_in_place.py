"""`stepwell-append-in-place`: reads inputs of appends directly in the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...dialects.stepwell.movement import AppendOp
from ...sizes.layouts import COPIED, STRIDE
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, main_function
from ..ir.values import shape_of
from .demand import MOST_ENTRIES, read_table

_SPARE_ENTRIES = 64
"""Number of entries of the table of extents that are reserved for expressions of later passes."""


@dataclass(frozen=True)
class _Kind:
    """The properties that inputs must have in common to share entries of the table.

    Attributes:
        type: their type.
        axis: the dimension along which they are appended to.
        end: the table entry of the number of elements along it.
        is_returned: whether an output may be in the same memory.
    """

    type: ir.Type
    axis: int
    end: int
    is_returned: bool


@register
@dataclass(frozen=True)
class AppendInPlacePass(Pass):
    """Read an input whose only readers are appends directly in the caller's memory, with the strides that it has there.

    Without it, the runtime copies such an input into an array of the upper bounds. The result may even share memory
    with the input: then nothing is copied. The strides and the number of elements to copy are known only in a call, so
    they are entries of the table of extents. Inputs of the same type share these entries. An input is still copied if a
    dimension after the one that grows varies, because its rows are closer together than at the upper bounds.

    ```mlir
    %0 = "stepwell.append"(%past, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64>}
    // -->
    %0 = "stepwell.append"(%past, %new, %table) {axis = 1 : i64, ends = array<i64: 0, -1>, layout = array<i64: 2, 3>}
    // with stepwell.layout = array<i64: 2, 3> on the argument, and stepwell.appended_to = 0 on the result of @main
    ```
    """

    name = "stepwell-append-in-place"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits every input of @main."""
        if not discardable.TABLE.is_on(op):
            return
        main, table = main_function(op), read_table(op)
        layouts: dict[_Kind, Sequence[int]] = {}
        found: dict[int, Sequence[int]] = {}
        results: dict[ir.Value, int] = {}
        extents = [discardable.EXTENTS.read(attributes, ()) for attributes in dictionaries(main, "arg_attrs")]
        for number, argument in enumerate(body_of(main).arguments):
            appends = _appends(argument)
            if not appends:
                continue
            rank = len(shape_of(argument))
            is_returned = any(use.owner.name == "func.return" for append in appends for use in append.result.uses)
            kind = _Kind(argument.type, appends[0].axis % rank, appends[0].ends[0], is_returned)
            if any(other.axis % rank != kind.axis or other.ends[0] != kind.end for other in appends):
                continue
            if any(entry >= 0 for entry in extents[number][kind.axis + 1 :]):
                continue
            if kind not in layouts:
                sizes = shape_of(argument)[: kind.axis]
                if len(table) + len(sizes) + 1 > MOST_ENTRIES - _SPARE_ENTRIES:
                    continue
                layouts[kind] = _new_entries(table, sizes, len(layouts))
            found[number] = layouts[kind]
            for append in appends:
                results[_with_layout(append, layouts[kind])] = number
        if found:
            discardable.TABLE.write(op, table)
            _note(main, found, results)


def _appends(argument: ir.Value) -> list[AppendOp]:
    """Returns the ops that append to an argument; [] if other ops read it too."""
    found = []
    for use in argument.uses:
        op = use.owner.operation
        if op.name != AppendOp.OPERATION_NAME or use.operand_number != 0:
            return []
        found.append(AppendOp(op))
    return found


def _new_entries(table: list, sizes: Sequence[int], group: int) -> Sequence[int]:
    """Adds the entries of a layout to the table; returns their indices."""
    layout = []
    for dim, size in enumerate(sizes):
        layout.append(len(table) if size != 1 else -1)
        table += [f"{STRIDE}{group}.{dim}"] if size != 1 else []
    table.append(f"{COPIED}{group}")
    return (*layout, len(table) - 1)


def _with_layout(op: AppendOp, layout: Sequence[int]) -> ir.Value:
    with op.operation.location, ir.InsertionPoint(op.operation):
        made = AppendOp(op.lhs, op.rhs, op.table, axis=op.axis, ends=tuple(op.ends), layout=tuple(layout)).result
    op.result.replace_all_uses_with(made)
    op.operation.erase()
    return made


def _note(main: ir.Operation, layouts: dict[int, Sequence[int]], results: dict[ir.Value, int]) -> None:
    """Writes the layouts to the arguments of @main, and to its results the arguments that they may overwrite."""
    arguments = [
        {item.name: item.attr for item in attributes}
        | (discardable.LAYOUT.entry(layouts[index]) if index in layouts else {})
        for index, attributes in enumerate(dictionaries(main, "arg_attrs"))
    ]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in arguments])
    *_, returned = body_of(main).operations
    taken: set[int] = set()
    attributes = []
    for value, old in zip(returned.operands, dictionaries(main, "res_attrs"), strict=True):
        number = results.get(value, -1)
        here = {item.name: item.attr for item in old}
        if number >= 0 and number not in taken:
            here |= discardable.APPENDED_TO.entry(number)
            taken.add(number)
        attributes.append(ir.DictAttr.get(here))
    main.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)
