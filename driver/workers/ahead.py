"""Kernels before anyone asks for them: while passes work on a model's graph, a worker goes ahead with its first part.

Kernels are named after what they do, so that those are known again that the part and the whole have in common: nearly
all of the part's. What the rest of the model would have changed about the others was compiled in vain, by a process
that had nothing else to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func

from ...lowering import invariants
from ...passes.functions import body_of, main_function
from ...passes.graph.specialize_shapes import SpecializeShapesPass
from ...passes.instrumentation import Instrumentation, Step
from ...passes.pipeline import Pipeline
from ...runtime.errors import StepwellError
from .. import route
from .claims import Claims, Outlook
from .library import KernelCode, compile_library, library_of
from .shares import in_order

_SHARES = (0.12, 0.4)
"""How much of a model is looked at: first little, as the passes take long for more; then more, should there be time."""


def compile_ahead(outlook: Outlook, claims: Claims) -> dict[str, KernelCode]:
    """The code of the kernels that this process has claimed before `claims` was settled, by name.

    Some may be missing: what cannot be compiled here is explained where it is asked for.
    """
    done: dict[str, KernelCode] = {}
    try:
        for share in _SHARES:
            module = _first_part(outlook, claims, share)  # it must live as long as what is in it
            fresh = [kernel for kernel in invariants.kernels(module) if invariants.symbol(kernel) not in done]
            for kernels in in_order(fresh):
                if not claims.claim([invariants.symbol(kernel) for kernel in kernels]):
                    return done
                done |= compile_library(library_of(kernels), outlook.target)
    except Exception:  # whoever asks for these kernels compiles them too, and so has the error with its place
        return done
    return done


def _first_part(outlook: Outlook, claims: Claims, share: float) -> ir.Module:
    watchers = (_UntilSettled(claims),)
    module = ir.Module.parse(claims.model())
    cut_after(main_function(module.operation), share)
    Pipeline((SpecializeShapesPass.of(outlook.shapes),)).run(module, watchers, verify=False)
    route.run(module, outlook.target, "import", "graph", watchers, without=outlook.without)
    route.form_kernels_pipeline(outlook.target).run(module, watchers, verify=False)
    return module


def cut_after(main: ir.Operation, share: float) -> None:
    """Leaves so much of what a function does with its arguments; it then returns what the rest would have read.

    Raises:
        ValueError: that is not all tensors.
    """
    block = body_of(main)
    ops = [op.operation for op in block.operations]
    varying = _varying(block, ops)
    work = [index for index, made in enumerate(varying) if made]
    end = work[int(share * len(work))]
    values = [value for made in varying[:end] for value in made]
    uses = [len(list(value.uses)) for value in values]
    for op in reversed(ops[end:]):
        op.erase()
    read = [value for value, count in zip(values, uses, strict=True) if len(list(value.uses)) < count]
    if not all(isinstance(value.type, ir.RankedTensorType) for value in read):
        raise ValueError("a value that is no tensor is read on both sides")
    with ir.InsertionPoint(block), main.location:
        func.ReturnOp(read)
    kind = ir.FunctionType.get([argument.type for argument in block.arguments], [value.type for value in read])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def _varying(block: ir.Block, ops: Sequence[ir.Operation]) -> list[list[ir.Value]]:
    """For each op, its results where they may differ from call to call; what parameters alone give does not."""
    known, found = set(block.arguments), []
    for op in ops:
        varies = len(op.regions) > 0 or any(value in known for value in op.operands)
        found.append(list(op.results) if varies else [])
        known.update(found[-1])
    return found


class _Settled(StepwellError):
    """Nobody waits for what was not begun."""


class _UntilSettled(Instrumentation):
    """Ends a pipeline when `claims` is settled."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        if self._claims.is_settled:
            raise _Settled
