"""`stepwell-choose-parallel-loops`: selects the loops that are worth waking threads for."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects.transform import interpreter

from ...dialects import discardable
from ...machines.costs import kernel_ns
from ...machines.machine import Machine
from ...machines.paces import paces_of
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.named_ops import ops_named
from ..target import Target

_SCRIPT = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
{steps}
    transform.yield
  }}
}}
"""
_STEP = """
    %loops{rank} = transform.structured.match ops{{["scf.forall"]}} attributes {{{attribute} = {rank} : i64}} in %root
      : (!transform.any_op) -> !transform.any_op
    transform.foreach %loops{rank} : !transform.any_op {{
    ^bb0(%loop: !transform.any_op):
      %nest:{rank} = transform.loop.forall_to_for %loop : (!transform.any_op) -> ({kinds})
    }}
"""


@register
@dataclass(frozen=True)
class ChooseParallelLoopsPass(Pass):
    """Convert `scf.forall` to `scf.for` where threads would cost more than they save.

    Only outermost loops stay parallel, and only in kernels that take `min_microseconds` or more on one core by their
    `stepwell.kernel` cost (a kernel that does not state one is assumed to be large).

        scf.forall (%i) in (4) { scf.forall (%j) in (8) {...} } --> scf.forall (%i) in (4) { scf.for %j = ... {...} }

    Preconditions: bufferised.

    Attributes:
        target: machine that the kernels are for, in the form that `Target.parse` accepts.
        min_microseconds: minimum time of a kernel on one core; 0 for that of the machine.
    """

    name = "stepwell-choose-parallel-loops"
    target: str = "cpu"
    min_microseconds: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the loops of every kernel."""
        machine = Target.parse(self.target).machine
        least = self.min_microseconds or paces_of(machine).parallel_ns / 1e3
        sequential = [loop for loop in ops_named(op, "scf.forall") if not _is_parallel(loop, machine, least)]
        if not sequential:
            return
        ranks = {_mark(loop) for loop in sequential}
        script = ir.Module.parse(_SCRIPT.format(steps="".join(map(_step, sorted(ranks)))))
        interpreter.apply_named_sequence(op, script.body.operations[0], script.operation)


def _is_parallel(loop: ir.Operation, machine: Machine, least: float) -> bool:
    parent = loop.parent
    while parent is not None and parent.operation.name != "func.func":
        if parent.operation.name == "scf.forall":
            return False
        parent = parent.operation.parent
    return parent is None or microseconds(parent.operation, machine) >= least


def _mark(loop: ir.Operation) -> int:
    """Marks a loop with its number of indices, which is the number of loops that it becomes; returns that number."""
    rank = len(ir.DenseI64ArrayAttr(loop.attributes["staticStep"]))
    discardable.SEQUENTIAL.write(loop, rank)
    return rank


def _step(rank: int) -> str:
    kinds = ", ".join(["!transform.any_op"] * rank)
    return _STEP.format(rank=rank, attribute=discardable.SEQUENTIAL.name, kinds=kinds)


def microseconds(kernel: ir.Operation, machine: Machine) -> float:
    """Returns a rough bound of the time of a kernel on one core; infinite if the kernel does not state its cost."""
    facts = discardable.KERNEL.read(kernel)
    if facts is None or facts.flops is None or facts.bytes is None:
        return float("inf")
    return kernel_ns(machine, facts.flops, facts.bytes) / 1000
