"""`stepwell-apply-schedules`: tiles every kernel by the schedule of its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects.transform import interpreter

from ...dialects import discardable
from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.diagnostics import MLIRError
from ...passes.infra.state import CompileState
from ...passes.ir.functions import class_of, kernels_in
from ...passes.ir.locations import names_in
from ..target import Target
from .schedules.attention import attention
from .schedules.base import Schedule, given_parameters
from .schedules.contraction import contraction
from .schedules.depthwise import depthwise
from .schedules.elementwise import elementwise
from .schedules.movement import movement
from .schedules.pooling import pooling
from .schedules.reduction import reduction
from .schedules.sorting import in_order
from .schedules.steps import loop_parameters
from .schedules.winograd import winograd

SCHEDULES: dict[str, Callable[[ir.Operation, Target], Schedule]] = {
    "attention": attention,
    "contraction": contraction,
    "convolution": contraction,
    "depthwise": depthwise,
    "elementwise": elementwise,
    "movement": movement,
    "pooling": pooling,
    "reduction": reduction,
    "sorting": in_order,
    "selection": in_order,
    "cumulative": in_order,
    "winograd": winograd,
}


@register
@dataclass(frozen=True)
class ApplySchedulesPass(Pass):
    """Tile every kernel by a transform script made for its class and the target.

    The schedule is recorded in the kernel's attribute `stepwell.schedule`. A kernel that already has the attribute
    is tiled with the parameters in it, or by the module's `transform.named_sequence` that it names.

    ```mlir
    func.func private @kernel_0(...) attributes {stepwell.kernel = {class = "elementwise", ...}}
    // -->
    func.func private @kernel_0(...) attributes {
      stepwell.kernel = {class = "elementwise", ...},
      stepwell.schedule = {name = "elementwise", blocks = array<i64: 40, 0>, unroll = 4, vector_bytes = 64}}
    ```

    Attributes:
        target: machine to tile for, in the form that `Target.parse` accepts.
    """

    name = "stepwell-apply-schedules"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Schedules every kernel of a module."""
        target = Target.parse(self.target)
        for kernel in kernels_in(op):
            _apply(kernel, op, target)
        # The applied sequences must not remain in the code.
        for inner in [item.operation for item in op.regions[0].blocks[0]]:
            if inner.name == "transform.named_sequence":
                inner.erase()


def _apply(kernel: ir.Operation, module: ir.Operation, target: Target) -> None:
    recorded = discardable.SCHEDULE.read(kernel)
    if isinstance(recorded, str):
        _apply_named(kernel, module, recorded, target)
        return
    kind = class_of(kernel)
    if kind not in SCHEDULES:
        raise PassError(f"{_describe(kernel)}: there is no schedule for kernels of class '{kind}'", kernel.location)
    given = given_parameters(kernel)
    try:
        schedule = SCHEDULES[kind](kernel, target)
    except (TypeError, ValueError, IndexError) as error:
        if not given:
            raise
        message = f"{_describe(kernel)}: the parameters {given} do not fit its schedule: {error}"
        raise PassError(message, kernel.location) from error
    # The vectoriser also needs the vector size.
    recorded = replace(schedule, parameters={"vector_bytes": target.vector_bytes, **schedule.parameters})
    discardable.SCHEDULE.write(kernel, recorded.attribute())
    try:
        script = ir.Module.parse(schedule.text)
        interpreter.apply_named_sequence(kernel, script.body.operations[0], script.operation)
    except (ValueError, MLIRError) as error:
        raise PassError(f"{_describe(kernel)}: schedule '{schedule.name}' failed: {error}", kernel.location) from error


def _apply_named(kernel: ir.Operation, module: ir.Operation, name: str, target: Target) -> None:
    symbols = ir.SymbolTable(module)
    if name not in symbols:
        raise PassError(f"{_describe(kernel)}: there is no transform.named_sequence @{name}", kernel.location)
    discardable.SCHEDULE.write(kernel, Schedule(name, loop_parameters(kernel, target), "").attribute())
    try:
        interpreter.apply_named_sequence(kernel, symbols[name].operation, module)
    except ValueError as error:
        raise PassError(f"{_describe(kernel)}: schedule '@{name}' failed: {error}", kernel.location) from error


def _describe(kernel: ir.Operation) -> str:
    """Returns how messages name a kernel: its symbol and the model's ops in it."""
    ops = ", ".join(names_in(kernel.location))
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    return f"kernel @{name}" + (f" ({ops})" if ops else "")
