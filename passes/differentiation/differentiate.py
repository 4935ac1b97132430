"""The pass `stepwell-differentiate`: reverse-mode differentiation of @main."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ..graph.values import is_float
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, is_output, main_function, note_of, update_type, value_names
from ..ir.values import shape_of
from . import branches, build, loops  # noqa: F401  # control flow registers its derivatives
from .reverse import GRADIENT, backward_location, location_of, pulled_back


@register
@dataclass(frozen=True)
class DifferentiatePass(Pass):
    """Add to @main the gradients of an output with respect to its inputs.

    The results of @main stay, and the gradients follow, each with the name of its input and the suffix `.gradient`.
    Without `seeded`, each output must have one element. With `seeded`, @main takes further arguments, the gradients of
    the outputs, and returns the product of these with the Jacobian.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
      %0 = "stepwell.mul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    // -->
    func.func @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
      ...
      %4 = "stepwell.add"(%2, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1, %4 : tensor<f32>, tensor<4xf32>
    }
    ```

    Each op on a path from the inputs to the outputs needs the interface `derivative`; `stepwell-opt --op-coverage`
    prints which have it. Preconditions: shapes are static, and weights to be trained are inputs
    (`stepwell-lift-parameters`).

    Attributes:
        wrt: names of the inputs; by default, all inputs of floating point.
        outputs: names of the outputs to differentiate; by default, the first one, and with `seeded` all of floating
            point.
        seeded: whether the gradients of the outputs are further arguments.
    """

    name = "stepwell-differentiate"
    wrt: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    seeded: bool = False

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Differentiates @main.

        Raises:
            PassError: an input or output is unknown, or an op has no derivative.
        """
        main = main_function(op)
        inputs, results = value_names(main, "arg_attrs", "input"), value_names(main, "res_attrs", "output")
        body = body_of(main)
        wrt = _named(self.wrt, inputs, list(body.arguments), "input", main)
        returned = list(list(body.operations)[-1].operands)
        default = [name for name, value in zip(results, returned, strict=True) if is_float(value)]
        outputs = self.outputs or tuple(default if self.seeded else results[:1])
        chosen = _named(outputs, results, returned, "output", main)
        seeds = self._seeds(main, chosen)
        gradients = gradients_of(body, list(wrt.values()), [(chosen[name], seeds[name]) for name in chosen])
        _return(main, dict(zip(wrt, gradients, strict=True)), seeds if self.seeded else {})

    def _seeds(self, main: ir.Operation, outputs: dict[str, ir.Value]) -> dict[str, ir.Value]:
        body, seeds = body_of(main), {}
        for name, value in outputs.items():
            if self.seeded:
                seeds[name] = body.add_argument(value.type, main.location)
                continue
            if build.count(shape_of(value)) != 1:
                raise PassError(
                    f"output '{name}' has the shape {list(shape_of(value))}: only a single number has a gradient. "
                    "Reduce it, as by a loss, or use `seeded`",
                    location_of(value),
                )
            with ir.InsertionPoint(list(body.operations)[-1]), backward_location(location_of(value)):
                seeds[name] = build.full(1, value)
        return seeds


def gradients_of(body: ir.Block, wrt: Sequence[ir.Value], seeds: Sequence[tuple[ir.Value, ir.Value]]) -> list[ir.Value]:
    """Writes the backward pass of a block before its terminator, and returns the gradients of values.

    Args:
        body: the block.
        wrt: arguments of the block.
        seeds: values of the block, each with its gradient.

    Raises:
        PassError: an op between them has no derivative.
    """
    operations = [view.operation for view in body.operations]
    with ir.InsertionPoint(operations[-1]), backward_location(operations[-1].location):
        return pulled_back(operations[:-1], wrt, seeds)


def _named(
    wanted: Sequence[str], names: Sequence[str], values: Sequence[ir.Value], kind: str, main: ir.Operation
) -> dict[str, ir.Value]:
    """The values with the names; all of floating point if none is named.

    Raises:
        PassError: there is no such value, or it is not floating point, or its shape is unknown.
    """
    known = dict(zip(names, values, strict=True))
    for name in wanted:
        if name not in known:
            raise PassError(f"there is no {kind} '{name}'; there are {', '.join(names)}", main.location)
        if not is_float(known[name]):
            raise PassError(
                f"{kind} '{name}' is {known[name].type}, and only floating point has a gradient", main.location
            )
    chosen = {name: known[name] for name in wanted or [name for name in names if is_float(known[name])]}
    for name, value in chosen.items():
        if not ir.RankedTensorType(value.type).has_static_shape:
            raise PassError(f"the shape of {kind} '{name}' must be static, but its type is {value.type}", main.location)
    return chosen


def _return(main: ir.Operation, gradients: dict[str, ir.Value], seeds: dict[str, ir.Value]) -> None:
    """Makes @main return the gradients after the outputs, and names them and the arguments for seeds."""
    body = body_of(main)
    arguments, results = dictionaries(main, "arg_attrs"), dictionaries(main, "res_attrs")
    last = list(body.operations)[-1]
    # Guards and counts stay after all outputs.
    outputs = sum(map(is_output, results))
    operands = list(last.operands)
    with ir.InsertionPoint(last), last.location:
        returned = [*operands[:outputs], *gradients.values(), *operands[outputs:]]
        ir.Operation.create(last.operation.name, operands=returned)
    last.operation.erase()
    update_type(main)
    notes = [_notes(*item) for item in gradients.items()]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([*arguments, *(_notes(*item) for item in seeds.items())])
    main.attributes["res_attrs"] = ir.ArrayAttr.get([*results[:outputs], *notes, *results[outputs:]])


def _notes(name: str, value: ir.Value) -> ir.DictAttr:
    return note_of(f"{name}{GRADIENT}", value)
