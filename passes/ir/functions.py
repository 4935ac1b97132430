"""Helpers that find functions of a module and read the attributes of their arguments and results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mlir import ir
from mlir.dialects import func

from ...dialects import discardable
from ...dialects.core import spec_of
from ..infra.base import PassError


def functions_with_bodies(module: ir.Operation, kinds: Collection[str] = ("func.func",)) -> Iterator[ir.Operation]:
    """The functions of a module that have bodies; `module` itself if it is a function."""
    if module.name in kinds:
        yield module
        return
    for op in list(module.regions[0].blocks[0].operations):
        if op.operation.name in kinds and len(op.operation.regions[0].blocks):
            yield op.operation


def function_named(module: ir.Operation, name: str, kinds: Collection[str] = ("func.func",)) -> ir.Operation | None:
    """The function called `name`, if the module has it."""
    names = ((ir.StringAttr(op.attributes["sym_name"]).value, op) for op in functions_with_bodies(module, kinds))
    return next((op for found, op in names if found == name), None)


def main_function(module: ir.Operation) -> ir.Operation:
    """The function that computes the model, at any level.

    Raises:
        PassError: there is none.
    """
    function = function_named(module, "main", ("func.func", "llvm.func"))
    if function is None:
        raise PassError("there is no function @main", module.location)
    return function


def kernels_in(module: ir.Operation) -> list[ir.Operation]:
    """The kernels with bodies in a module, [] for any other op. A list: callers may add and remove functions."""
    if module.name != "builtin.module":
        return []
    functions = [op.operation for op in module.regions[0].blocks[0].operations]
    return [op for op in functions if discardable.KERNEL.is_on(op) and len(op.regions[0].blocks)]


def class_of(kernel: ir.Operation) -> str:
    """The class of a kernel, which selects its schedule; "" if the kernel has none."""
    return discardable.KERNEL.required(kernel).kind


def body_of(function: ir.Operation) -> ir.Block:
    """The only block of a function."""
    return function.regions[0].blocks[0]


def update_type(function: ir.Operation) -> None:
    """Sets the type of a function to those of its arguments and of what it returns."""
    body = body_of(function)
    returned = list(body.operations)[-1].operands
    kind = ir.FunctionType.get([value.type for value in body.arguments], [value.type for value in returned])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def dictionaries(function: ir.Operation | ir.OpView, key: str) -> list[ir.DictAttr]:
    """The attribute dictionaries of the arguments (`arg_attrs`) or results (`res_attrs`), one each."""
    if key in function.attributes:
        return [ir.DictAttr(item) for item in ir.ArrayAttr(function.attributes[key])]
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return [ir.DictAttr.get({})] * len(kind.inputs if key == "arg_attrs" else kind.results)


def dims_note(value: ir.Value) -> dict[str, ir.Attribute]:
    """The attribute of an argument or result of @main with its dimensions: numbers and names of sizes."""
    return discardable.DIMS.entry([dim if isinstance(dim, int) else str(dim) for dim in spec_of(value).shape])


def note_of(name: str, value: ir.Value) -> ir.DictAttr:
    """The attributes of an argument or result of @main: its name and its dimensions."""
    return ir.DictAttr.get(discardable.NAME.entry(name) | dims_note(value))


def add_argument(function: ir.Operation | ir.OpView, name: str, kind: ir.Type) -> ir.Value:
    """Adds an argument to @main, behind the others."""
    notes = dictionaries(function, "arg_attrs")
    value = body_of(function.operation).add_argument(kind, ir.Location.name(name, context=function.context))
    update_type(function.operation)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*notes, note_of(name, value)])
    return value


def add_result(function: ir.Operation | ir.OpView, name: str, value: ir.Value) -> None:
    """Adds a result to @main, behind the others."""
    notes = dictionaries(function, "res_attrs")
    *_, returned = body_of(function.operation).operations
    with ir.InsertionPoint(returned), returned.location:
        func.ReturnOp([*returned.operands, value])
    returned.operation.erase()
    update_type(function.operation)
    function.attributes["res_attrs"] = ir.ArrayAttr.get([*notes, note_of(name, value)])


def is_output(attributes: ir.DictAttr) -> bool:
    """Returns whether a result of @main with these attributes is an output of the model, not a guard or a count."""
    return not discardable.GUARD.is_on(attributes) and not discardable.COUNT.is_on(attributes)


def are_dimensions(pairs: Sequence[int], ranks: Sequence[int]) -> bool:
    """Returns whether a flat list of pairs (index of a tensor, dimension) is valid for tensors of these ranks."""
    if len(pairs) % 2:
        return False
    named = zip(pairs[::2], pairs[1::2], strict=True)
    return all(0 <= index < len(ranks) and 0 <= axis < ranks[index] for index, axis in named)


def value_names(function: ir.Operation | ir.OpView, key: str, default: str) -> list[str]:
    """The names of the arguments (`arg_attrs`) or results (`res_attrs`); an unnamed one is `default` and its index."""
    return [
        discardable.NAME.read(attrs, f"{default}{index}") for index, attrs in enumerate(dictionaries(function, key))
    ]


def strings(attributes: ir.Attribute) -> tuple[str, ...]:
    """The strings in an array attribute."""
    return tuple(ir.StringAttr(item).value for item in ir.ArrayAttr(attributes))


def computed_extents(kernel: ir.Operation) -> list[int]:
    """Returns the table entry of the extent that a kernel computes along each dimension of its result; -1 for all."""
    entries = discardable.EXTENTS.read(kernel, [])
    # Nothing has to be computed where the result is known to be 0.
    kept = discardable.KEPT.read(kernel, [-1] * len(entries))
    return [end if end >= 0 else entry for entry, end in zip(entries, kept, strict=True)]
