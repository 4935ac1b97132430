"""Records the program's inputs and outputs while its types still describe them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable, forms
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import are_dimensions, dictionaries, is_output, main_function


@register
@dataclass(frozen=True)
class RecordInterfacePass(Pass):
    """Write the inputs, outputs, guards and counts of @main into a module attribute.

    Later levels have neither bools nor results; the runtime reads this attribute instead. `appended`, if present, lists
    the inputs that are read in the caller's memory with its strides.

    ```mlir
    func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}) -> (tensor<4xi1> {stepwell.name = "y"})
    // -->
    module attributes {stepwell.interface = {
      inputs = [{name = "x", type = tensor<4xf32>}], outputs = [{name = "y", type = tensor<4xi1>}],
      guards = [], counts = []}}
    ```
    """

    name = "stepwell-record-interface"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds the attribute to the module.

        Raises:
            PassError: a count is of a dimension that does not exist.
        """
        main = main_function(op)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs = dictionaries(main, "arg_attrs")
        results = dictionaries(main, "res_attrs")
        guards = [reason for attrs in results if (reason := discardable.GUARD.read(attrs)) is not None]
        counts = [cropped for attrs in results if (cropped := discardable.COUNT.read(attrs)) is not None]
        outputs = [pair for pair in zip(kind.results, results, strict=True) if is_output(pair[1])]
        ranks = [ir.RankedTensorType(item).rank for item, _ in outputs]
        if not all(are_dimensions(pairs, ranks) for pairs in counts):
            raise PassError(f"'{discardable.COUNT.name}' must list pairs of an output and its dimension", main.location)
        for item, attrs in zip(kind.results, results, strict=True):
            if discardable.COUNT.is_on(attrs) and str(item) != "tensor<i64>":
                raise PassError(
                    f"a result with '{discardable.COUNT.name}' must be a tensor<i64>, not {item}", main.location
                )
        interface = {
            "inputs": _entries(zip(kind.inputs, inputs, strict=True), "input"),
            "outputs": _entries(outputs, "output"),
            "guards": forms.STRINGS.write(guards),
            "counts": forms.EXTENTS.write(counts),
        }
        appended = _appended(inputs, [attributes for _, attributes in outputs])
        if appended:
            interface["appended"] = ir.ArrayAttr.get(appended)
        discardable.INTERFACE.write(op, ir.DictAttr.get(interface))


def _appended(inputs: Sequence[ir.DictAttr], outputs: Sequence[ir.DictAttr]) -> list[ir.Attribute]:
    """Returns the inputs that are appended to: the index of each, the index of the output (or -1), and the layout."""
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
