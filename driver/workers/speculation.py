"""Speculative compiles: while passes work on a model's graph, a worker compiles the kernels of its first part.

Kernels are named after what they compute, so those that the part and the whole model share are found by name: nearly
all of the part's kernels. The others are redundant work, of a process that would otherwise be idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import func

from ...dialects.symbols import symbol_of
from ...lowering import invariants
from ...passes.infra.instrumentation import Instrumentation, PassStep
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, main_function
from ...support.errors import StepwellError
from .. import route
from ..state import state_for
from .claims import Claims, Speculation
from .library import KernelCode, compile_library, library_of
from .shares import in_order

_SHARES = (0.12, 0.4)
"""Fractions of the model to compile: first a small one, because passes take long for more, then a larger one."""


def compile_speculatively(speculation: Speculation, claims: Claims) -> dict[str, KernelCode]:
    """Returns the code of the kernels that this process claimed before `claims` was settled, by name.

    Some may be missing: errors are reported when the kernel is compiled on request.
    """
    done: dict[str, KernelCode] = {}
    state = state_for(speculation.target, shapes=speculation.shapes, without=speculation.without)
    try:
        for share in _SHARES:
            module = _first_part(claims, share, state)  # keeps the operations in it alive
            fresh = [kernel for kernel in invariants.kernels(module) if symbol_of(kernel) not in done]
            for kernels in in_order(fresh):
                if not claims.claim([symbol_of(kernel) for kernel in kernels]):
                    return done
                done |= compile_library(library_of(kernels), state)
    except Exception:  # guesswork may fail; the requester compiles what is missing, and raises what is wrong with it
        return done
    return done


def _first_part(claims: Claims, share: float, state: CompileState) -> ir.Module:
    watchers = (_UntilSettled(claims),)
    state = replace(state, instrumentation=watchers)
    module = ir.Module.parse(claims.model())
    cut_after(main_function(module.operation), share)
    route.run(module, state, "import", "graph")
    route.form_kernels_pipeline(state.target).run(module, watchers, verify=False, state=state)
    return module


def cut_after(main: ir.Operation, share: float) -> None:
    """Cuts a function after a share of the ops that depend on its arguments; it then returns what the rest would read.

    Raises:
        ValueError: not all of these values are tensors.
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
        raise ValueError("a value that is not a tensor is read on both sides")
    with ir.InsertionPoint(block), main.location:
        func.ReturnOp(read)
    kind = ir.FunctionType.get([argument.type for argument in block.arguments], [value.type for value in read])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def _varying(block: ir.Block, ops: Sequence[ir.Operation]) -> list[list[ir.Value]]:
    """Returns, for each op, its results if they depend on arguments, and not on parameters alone."""
    known, found = set(block.arguments), []
    for op in ops:
        varies = len(op.regions) > 0 or any(value in known for value in op.operands)
        found.append(list(op.results) if varies else [])
        known.update(found[-1])
    return found


class _Settled(StepwellError):
    """Raised when the claims are settled, so that other kernels are no longer needed."""


class _UntilSettled(Instrumentation):
    """Ends a pipeline when `claims` is settled."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        if self._claims.is_settled:
            raise _Settled
