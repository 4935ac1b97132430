"""Invariants of each phase; each check raises PassError at the first op that violates one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mlir import ir

from ..dialects import discardable
from ..dialects.registry import OPS
from ..dialects.symbols import symbol_of
from ..passes.infra.base import PassError
from ..passes.ir.functions import main_function
from ..passes.ir.rewriting import find_op, walk
from ..passes.kernel.views import EXTRACT, INSERT, box_of

_ALLOCATING = ("memref.alloc", "memref.dealloc")
_NO_WORK = {"stepwell.parameter", "stepwell.constant", "stepwell.reshape"}


def check_import(module: ir.Module) -> None:
    """Checks that the entry point exists, and the location of every stepwell op names an op of the model."""
    main = main_function(module.operation)
    for op in walk(main):
        location = op.location
        if op.name in OPS and not (location.is_a_name() or location.is_a_fused() or location.is_a_file()):
            raise PassError(f"'{op.name}' op has no location that names the model's op", op.location)


def check_graph(module: ir.Module) -> None:
    """Checks that all shapes are static."""
    for op in walk(main_function(module.operation)):
        for value in op.results:
            if isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape:
                raise PassError(f"'{op.name}' op still has a dynamic shape, {value.type}", op.location)


def check_kernels(module: ir.Module) -> None:
    """Checks that all work is in kernels, kernels are lowered to linalg, and parts are written in place."""
    for op in [] if is_library(module) else walk(main_function(module.operation)):
        if op.name in OPS and op.name not in _NO_WORK:
            raise PassError(f"'{op.name}' op is outside of every kernel", op.location)
        if op.name.startswith("linalg."):
            raise PassError(f"'{op.name}' op is outside of every kernel", op.location)
        if op.name == INSERT and not _is_made_in_place(op):
            raise PassError(f"'{op.name}' op inserts a tensor that was not computed in place", op.location)
    for kernel in kernels(module):
        for op in walk(kernel):
            if op.name in OPS:
                raise PassError(f"'{op.name}' op was not lowered to linalg", op.location)


def check_tiled(module: ir.Module) -> None:
    """Checks that every kernel records the schedule that was used."""
    for kernel in kernels(module):
        if not discardable.SCHEDULE.is_on(kernel) and not is_declaration(kernel):
            raise PassError(f"kernel @{symbol_of(kernel)} has no schedule", kernel.location)


def check_vector(module: ir.Module) -> None:
    """Checks that no linalg op is left."""
    for kernel in kernels(module):
        if left := find_op(kernel, lambda op: op.name.startswith("linalg.")):
            raise PassError(f"'{left.name}' op was not vectorised", left.location)


def check_memref(module: ir.Module) -> None:
    """Checks that no tensor is left, and nothing allocates."""
    for function in [*kernels(module)] if is_library(module) else [main_function(module.operation), *kernels(module)]:
        left = find_op(function, lambda op: op.name in _ALLOCATING or makes_tensor(op))
        if left and left.name in _ALLOCATING:
            raise PassError(f"'{left.name}' op allocates while the model runs", left.location)
        if left:
            raise PassError(f"'{left.name}' op still makes a tensor", left.location)


def check_llvm(module: ir.Module) -> None:
    """Checks that only the LLVM dialect is left."""
    if left := find_op(module.operation, lambda op: not op.name.startswith("llvm.")):
        raise PassError(f"'{left.name}' op was not lowered to the LLVM dialect", left.location)


EARLY_CHECKS: Mapping[str, Callable[[ir.Module], None]] = {
    "import": check_import,
    "graph": check_graph,
    "kernels": check_kernels,
}
"""The checks of the phases that all targets share, by phase name."""


def is_library(module: ir.Module) -> bool:
    """Returns whether a module is marked as holding kernels only, without an @main that calls them."""
    return discardable.LIBRARY.is_on(module.operation)


def kernels(module: ir.Module) -> Iterator[ir.Operation]:
    """Returns the kernel functions of a module."""
    return (op.operation for op in module.body.operations if discardable.KERNEL.is_on(op))


def is_declaration(function: ir.Operation) -> bool:
    """Returns whether a function has no body."""
    return len(function.regions[0].blocks) == 0


def _is_made_in_place(insertion: ir.Operation) -> bool:
    """Returns whether the inserted tensor was written by a kernel whose destination is that very part of the tensor."""
    part, whole = insertion.operands[0], insertion.operands[1]
    if isinstance(part.owner, ir.Block) or part.owner.name != "func.call":
        return False
    call = part.owner.operation
    target = call.operands[len(call.operands) - len(call.results) + list(call.results).index(part)]
    if isinstance(target.owner, ir.Block) or target.owner.name != EXTRACT or target.owner.operands[0] != whole:
        return False
    return box_of(target.owner) == box_of(insertion)


def makes_tensor(op: ir.Operation) -> bool:
    """Returns whether an op has a result that is a tensor."""
    return any(isinstance(value.type, ir.RankedTensorType) for value in op.results)
