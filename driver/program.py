"""Builds a `Program` for the runtime from a module that has reached its last phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ..dialects.types import numpy_dtype
from ..lowering.target import Target
from ..passes.infra.base import PassError
from ..passes.ir.functions import main_function, strings
from ..runtime.program import WORK, ArenaBuffer, CpuTarget, KernelInfo, Program, TensorInfo, aligned

LIFETIMES = "stepwell.lifetimes"
"""The attribute of modules with the offset, size and lifetime of each buffer in the arena."""

# Operations plus bytes that take one core some tens of microseconds.
_SHORT_WORK = 4_000_000

CONSTANT = "stepwell.constant."
"""Prefix of parameters that are constants of a program for a GPU."""


def program_of(
    module: ir.Module,
    parameters: Mapping[str, np.ndarray],
    target: Target,
    objects: Mapping[str, bytes],
    kernels: Sequence[KernelInfo] = (),
) -> Program:
    """Builds the program of a module that has reached the phase `llvm` or, for a GPU, `nvvm`.

    Args:
        module: the module.
        parameters: the contents of its parameters; others are ignored.
        target: the target of its code.
        objects: its code, by symbol.
        kernels: the table of its kernels.
    """
    interface = ir.DictAttr(module.operation.attributes["stepwell.interface"])
    inputs, outputs = _tensors(interface["inputs"]), _tensors(interface["outputs"])
    guards, used, launches = strings(interface["guards"]), _used(module, parameters), None
    if target.is_gpu:
        from ..targets.nvidia.launches.plan import plan_of  # loads all code generation for GPUs

        launches, constants = plan_of(module, (len(inputs), len(outputs) + len(guards), len(used)))
        used |= {f"{CONSTANT}{number}": aligned(contents) for number, contents in enumerate(constants)}
        objects = {f"{name}.ptx": code for name, code in objects.items()}
    return Program(
        inputs=inputs,
        outputs=outputs,
        guards=guards,
        parameters=used,
        arena_bytes=ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value,
        target=CpuTarget(target.triple, target.cpu, target.features, target.precision),
        objects=objects,
        kernels=kernels,
        uses_threads=WORK in objects,
        is_short=not target.is_gpu and _is_short(module, kernels),
        buffers=_buffers(module),
        launches=launches,
    )


def _is_short(module: ir.Module, kernels: Sequence[KernelInfo]) -> bool:
    """Returns whether a call is short, by the work of its kernels; a loop in @main may run them more often."""
    work = sum(kernel.calls * (kernel.flops + kernel.bytes) for kernel in kernels)
    return work <= _SHORT_WORK and len(main_function(module.operation).regions[0].blocks) == 1


def _used(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    read = map(ir.DictAttr, ir.ArrayAttr(module.operation.attributes["stepwell.parameters"]))
    names = [ir.StringAttr(entry["name"]).value for entry in read]
    missing = [name for name in names if name not in parameters]
    if missing:
        share = f"{len(missing)} of {len(names)} are missing"
        raise PassError(f"there are no contents for the parameter '{missing[0]}' ({share})")
    return {name: parameters[name] for name in names}


def _buffers(module: ir.Module) -> list[ArenaBuffer]:
    """Returns the buffers in the arena in the order of time; empty if a module does not record them."""
    attributes, found = module.operation.attributes, []
    for row in map(ir.DictAttr, ir.ArrayAttr(attributes[LIFETIMES]) if LIFETIMES in attributes else ()):
        name, node = (ir.StringAttr(row[key]).value if key in row else "" for key in ("name", "node"))
        offset, size, first, last = (ir.IntegerAttr(row[key]).value for key in ("offset", "bytes", "first", "last"))
        found.append(ArenaBuffer(name, node, offset, size, first, last))
    return sorted(found, key=lambda item: (item.first, item.offset))


def _tensors(entries: ir.Attribute) -> tuple[TensorInfo, ...]:
    found = []
    for entry in map(ir.DictAttr, ir.ArrayAttr(entries)):
        kind = ir.RankedTensorType(ir.TypeAttr(entry["type"]).value)
        found.append(TensorInfo(ir.StringAttr(entry["name"]).value, numpy_dtype(kind.element_type), tuple(kind.shape)))
    return tuple(found)
