"""Records the program's inputs and outputs while its types still describe them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable, forms
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import dictionaries, main_function


@register
@dataclass(frozen=True)
class RecordInterfacePass(Pass):
    """Write the inputs, outputs and guards of @main into a module attribute.

    Later levels have neither bools nor results; the runtime reads this attribute instead. `appended` lists the inputs
    that are read as they lie in the caller's memory, if there are any.

    ```mlir
    func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}) -> (tensor<4xi1> {stepwell.name = "y"})
    // -->
    module attributes {stepwell.interface = {
      inputs = [{name = "x", type = tensor<4xf32>}], outputs = [{name = "y", type = tensor<4xi1>}], guards = []}}
    ```
    """

    name = "stepwell-record-interface"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds the attribute to the module."""
        main = main_function(op)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs = dictionaries(main, "arg_attrs")
        results = dictionaries(main, "res_attrs")
        guards = [reason for attrs in results if (reason := discardable.GUARD.read(attrs)) is not None]
        outputs = [pair for pair in zip(kind.results, results, strict=True) if not discardable.GUARD.is_on(pair[1])]
        interface = {
            "inputs": _entries(zip(kind.inputs, inputs, strict=True), "input"),
            "outputs": _entries(outputs, "output"),
            "guards": forms.STRINGS.write(guards),
        }
        appended = _appended(inputs, [attributes for _, attributes in outputs])
        if appended:
            interface["appended"] = ir.ArrayAttr.get(appended)
        discardable.INTERFACE.write(op, ir.DictAttr.get(interface))


def _appended(inputs: Sequence[ir.DictAttr], outputs: Sequence[ir.DictAttr]) -> list[ir.Attribute]:
    """Returns the inputs that are appended to: the number of each, that of the output, or -1, and its layout."""
    found = []
    for number, attributes in enumerate(inputs):
        layout = discardable.LAYOUT.read(attributes)
        if layout is not None:
            places = [place for place, item in enumerate(outputs) if discardable.APPENDED_TO.read(item) == number]
            found.append(forms.I64S.write([number, places[0] if places else -1, *layout]))
    return found


def _entries(values: Iterable[tuple[ir.Type, ir.DictAttr]], default: str) -> ir.ArrayAttr:
    return ir.ArrayAttr.get(
        [
            ir.DictAttr.get(
                {
                    "name": ir.StringAttr.get(discardable.NAME.read(attrs, f"{default}{index}")),
                    "type": ir.TypeAttr.get(kind),
                }
            )
            for index, (kind, attrs) in enumerate(values)
        ]
    )
