"""The pass `stepwell-lift-parameters`: makes parameters inputs."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects.stepwell.constant import ParameterOp
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, main_function, note_of, update_type
from ..ir.rewriting import walk


@register
@dataclass(frozen=True)
class LiftParametersPass(Pass):
    """Make parameters inputs of @main, so that they can be differentiated and changed between calls.

    The inputs follow those of the model, in the order in which @main reads them, with the names of the parameters.

    ```mlir
    func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
      %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4, 3>, dtype = f32} : () -> tensor<4x3xf32>
      %0 = "stepwell.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
    // -->
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x3xf32> {stepwell.name = "w"}) -> tensor<2x3xf32> {
      %0 = "stepwell.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
    ```

    Attributes:
        only: names of the parameters; by default, all of them.
    """

    name = "stepwell-lift-parameters"
    only: tuple[str, ...] = ()

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Replaces parameters by arguments.

        Raises:
            PassError: there is no parameter of a name.
        """
        main = main_function(op)
        found: dict[str, ir.Value] = {}
        notes = dictionaries(main, "arg_attrs")
        for inner in list(walk(main)):
            if inner.name != ParameterOp.OPERATION_NAME:
                continue
            parameter = ParameterOp.of(inner)
            if self.only and parameter.name not in self.only:
                continue
            if parameter.name not in found:
                found[parameter.name] = body_of(main).add_argument(parameter.result.type, inner.location)
                notes.append(note_of(parameter.name, parameter.result))
            parameter.result.replace_all_uses_with(found[parameter.name])
            inner.erase()
        missing = sorted(set(self.only) - set(found))
        if missing:
            raise PassError(f"there is no parameter '{missing[0]}'", main.location)
        update_type(main)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(notes)
