"""Helpers that add arguments and results to @main, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import func

from ..dialects.types import TensorSpec, tensor_type
from ..passes.ir.functions import (
    add_argument,
    body_of,
    dictionaries,
    is_output,
    main_function,
    note_of,
    update_type,
    value_names,
)
from ..support.errors import OptionError


class Main:
    """The function @main of a module, whose arguments and results are found by name."""

    def __init__(self, module: ir.Module) -> None:
        self.function = main_function(module.operation)
        self.body = body_of(self.function)

    @staticmethod
    def empty() -> tuple[ir.Module, Main]:
        """Returns a module whose @main takes and returns nothing, and that @main."""
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            made = func.FuncOp("main", ([], []))
        with ir.InsertionPoint(made.add_entry_block()):
            func.ReturnOp([])
        return module, Main(module)

    @property
    def last(self) -> ir.OpView:
        """The op that returns the results."""
        return list(self.body.operations)[-1]

    @property
    def arguments(self) -> dict[str, ir.Value]:
        """The arguments by name."""
        return dict(zip(value_names(self.function, "arg_attrs", "input"), self.body.arguments, strict=True))

    @property
    def results(self) -> dict[str, ir.Value]:
        """The values that are returned, by name."""
        return dict(zip(value_names(self.function, "res_attrs", "output"), self.last.operands, strict=True))

    def argument(self, name: str, spec: TensorSpec) -> ir.Value:
        """Adds an argument.

        Raises:
            OptionError: the model has one of this name.
        """
        if name in self.arguments:
            raise OptionError(
                f"the model has an input or a parameter called '{name}', which is the name of one of the step"
            )
        return add_argument(self.function, name, tensor_type(spec))

    def bind(self, name: str, value: ir.Value) -> None:
        """Replaces an argument by a value."""
        place = list(self.arguments).index(name)
        notes = dictionaries(self.function, "arg_attrs")
        self.body.arguments[place].replace_all_uses_with(value)
        self.body.erase_argument(place)
        self.function.attributes["arg_attrs"] = ir.ArrayAttr.get([*notes[:place], *notes[place + 1 :]])
        update_type(self.function)

    def give(
        self,
        more: Mapping[str, ir.Value],
        *,
        first: Mapping[str, ir.Value] | None = None,
        without: Sequence[str] = (),
    ) -> None:
        """Returns further values after those that are returned, but before guards.

        Args:
            more: values by name.
            first: values that are returned before all others.
            without: names of values that are no longer returned.
        """
        notes, names = dictionaries(self.function, "res_attrs"), list(self.results)
        kept = [item for name, *item in zip(names, notes, self.last.operands, strict=True) if name not in without]
        outputs = [(note, value) for note, value in kept if is_output(note)]
        guards = [(note, value) for note, value in kept if not is_output(note)]
        everything = [*_named(first or {}), *outputs, *_named(more), *guards]
        last = self.last
        with ir.InsertionPoint(last), last.location:
            ir.Operation.create(last.operation.name, operands=[value for _, value in everything])
        last.operation.erase()
        update_type(self.function)
        self.function.attributes["res_attrs"] = ir.ArrayAttr.get([note for note, _ in everything])


def _named(items: Mapping[str, ir.Value]) -> list[tuple[ir.DictAttr, ir.Value]]:
    return [(note_of(name, value), value) for name, value in items.items()]
