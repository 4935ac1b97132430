"""`stepwell-append-in-place`: reads inputs of appends directly in the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...dialects.registry import view_of
from ...dialects.stepwell.movement import AppendOp
from ...dialects.stepwell.paging import StoreRowsOp
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
        axis: the dimension along which they are appended to; 0 for a pool of rows.
        end: the table entry of the number of elements along it; -1 for all of them.
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
    dimension after the one that grows varies, because its rows are closer together than at the upper bounds. A pool in
    which `stepwell.store_rows` stores rows, whose size does not vary, is not copied either.

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
        main, table = main_function(op), read_table(op)
        layouts: dict[_Kind, Sequence[int]] = {}
        found: dict[int, Sequence[int]] = {}
        results: dict[ir.Value, int] = {}
        extents = [discardable.EXTENTS.read(attributes, ()) for attributes in dictionaries(main, "arg_attrs")]
        for number, argument in enumerate(body_of(main).arguments):
            appends = _appends(argument)
            if not appends:
                continue
            is_returned = any(use.owner.name == "func.return" for append in appends for use in append.result.uses)
            kind, *others = {_kind_of(append, is_returned) for append in appends}
            if others or (len(appends) > 1 and isinstance(appends[0], StoreRowsOp)):
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
                results[_with_layout(append, layouts[kind], extents[number][: kind.axis])] = number
        if found:
            discardable.TABLE.write(op, table)
            _note(main, found, results)


def _appends(argument: ir.Value) -> list[AppendOp | StoreRowsOp]:
    """Returns the ops that append to an argument, or store rows in it; [] if other ops read it too."""
    found: list[AppendOp | StoreRowsOp] = []
    for use in argument.uses:
        view = view_of(use.owner)
        if not isinstance(view, AppendOp | StoreRowsOp) or use.operand_number != 0 or view.table is None:
            return []
        found.append(view)
    return found


def _kind_of(op: AppendOp | StoreRowsOp, is_returned: bool) -> _Kind:
    kind = op.operation.operands[0].type
    if isinstance(op, StoreRowsOp):
        return _Kind(kind, 0, -1, is_returned)
    return _Kind(kind, op.axis % len(shape_of(op.lhs)), op.ends[0], is_returned)


def _new_entries(table: list, sizes: Sequence[int], group: int) -> Sequence[int]:
    """Adds the entries of a layout to the table; returns their indices."""
    layout = []
    for dim, size in enumerate(sizes):
        layout.append(len(table) if size != 1 else -1)
        table += [f"{STRIDE}{group}.{dim}"] if size != 1 else []
    table.append(f"{COPIED}{group}")
    return (*layout, len(table) - 1)


def _with_layout(op: AppendOp | StoreRowsOp, layout: Sequence[int], held: Sequence[int]) -> ir.Value:
    with op.operation.location, ir.InsertionPoint(op.operation):
        attributes = {**op.attribute_values(), "layout": tuple(layout)}
        if any(entry >= 0 for entry in held):
            attributes["held"] = tuple(held)
        made = type(op)(*op.operation.operands, **attributes).result
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
