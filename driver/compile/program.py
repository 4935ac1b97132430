"""Builds a `Program` for the runtime from a module that has reached its last phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ...dialects import discardable, forms
from ...dialects.types import numpy_dtype
from ...passes.infra.base import PassError
from ...passes.ir.functions import dictionaries, main_function, strings
from ...passes.kernel.demand import read_table
from ...runtime.program import WORK, ArenaBuffer, CodeTarget, Count, KernelInfo, Program, TensorInfo
from ...sizes.bounds import Bounds
from ...sizes.layouts import Appended
from ...sizes.ranges import Range
from ...targets.registry import backend_of, target_of

# Maximum operations plus bytes of a short call, which take one core some tens of microseconds.
_SHORT_WORK = 4_000_000


def program_of(
    module: ir.Module,
    parameters: Mapping[str, np.ndarray],
    target: str,
    objects: Mapping[str, bytes],
    kernels: Sequence[KernelInfo] = (),
) -> Program:
    """Builds the program of a module that has reached the last phase of a target.

    Args:
        module: the module.
        parameters: the contents of its parameters; others are ignored.
        target: the name of the target of its code.
        objects: its code, by symbol.
        kernels: the table of its kernels.
    """
    interface = discardable.INTERFACE.required(module.operation)
    inputs, outputs = _tensors(interface["inputs"]), _tensors(interface["outputs"])
    machine = target_of(target)
    program = Program(
        inputs=inputs,
        outputs=outputs,
        guards=strings(interface["guards"]),
        counts=tuple(map(Count.of, forms.EXTENTS.read(interface["counts"]) or ())),
        parameters=_used(module, parameters),
        arena_bytes=discardable.ARENA_BYTES.required(module.operation),
        target=CodeTarget(machine.triple, machine.cpu, machine.features, machine.precision, machine.device),
        objects=objects,
        kernels=kernels,
        uses_threads=WORK in objects,
        is_short=_is_short(module, kernels),
        buffers=_buffers(module),
        appended=_appended(interface["appended"], inputs, len(outputs)) if "appended" in interface else (),
    )
    return backend_of(target).finish(program, module)


def bounds_of(module: ir.Operation) -> Bounds:
    """Returns the sizes that a module in the phase `graph` serves."""
    table, main = tuple(read_table(module)), main_function(module)
    ranges = {name: Range(*values) for name, values in discardable.RANGES.required(module).items()}
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    outputs = tuple(
        tuple(
            size if entry < 0 else table[entry]
            for size, entry in zip(ir.RankedTensorType(result).shape, discardable.EXTENTS.required(item), strict=True)
        )
        for result, item in zip(kind.results, dictionaries(main, "res_attrs"), strict=True)
    )
    return Bounds(ranges, table, outputs)


def _is_short(module: ir.Module, kernels: Sequence[KernelInfo]) -> bool:
    """Returns whether a call is short, by the work of its kernels; a loop in @main may run them more often."""
    work = sum(kernel.calls * (kernel.flops + kernel.bytes) for kernel in kernels)
    return work <= _SHORT_WORK and len(main_function(module.operation).regions[0].blocks) == 1


def _used(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [ir.StringAttr(entry["name"]).value for entry in discardable.PARAMETERS.required(module.operation)]
    missing = [name for name in names if name not in parameters]
    if missing:
        share = f"{len(missing)} of {len(names)} are missing"
        raise PassError(f"there are no contents for the parameter '{missing[0]}' ({share})")
    return {name: parameters[name] for name in names}


def _buffers(module: ir.Module) -> list[ArenaBuffer]:
    """Returns the buffers in the arena in the order of time; empty if a module does not record them."""
    found = []
    for row in discardable.LIFETIMES.read(module.operation, ()):
        name, node = (ir.StringAttr(row[key]).value if key in row else "" for key in ("name", "node"))
        offset, size, first, last = (ir.IntegerAttr(row[key]).value for key in ("offset", "bytes", "first", "last"))
        found.append(ArenaBuffer(name, node, offset, size, first, last))
    return sorted(found, key=lambda item: (item.first, item.offset))


def _appended(entries: ir.Attribute, inputs: Sequence[TensorInfo], outputs: int) -> tuple[Appended, ...]:
    found = []
    *ranks, entry_count = [*(len(info.shape) for info in inputs[:-1]), int(inputs[-1].shape[0])]
    for row in ir.ArrayAttr(entries):
        number, output, *layout = ir.DenseI64ArrayAttr(row)
        record = {"input": number, "output": output, "layout": layout}
        try:
            found.append(Appended.read(record, ranks, outputs, entry_count))
        except ValueError as error:
            raise PassError(f"'{discardable.INTERFACE.name}' is wrong: {error}") from error
    return tuple(found)


def _tensors(entries: ir.Attribute) -> tuple[TensorInfo, ...]:
    found = []
    for entry in map(ir.DictAttr, ir.ArrayAttr(entries)):
        kind = ir.RankedTensorType(ir.TypeAttr(entry["type"]).value)
        found.append(TensorInfo(ir.StringAttr(entry["name"]).value, numpy_dtype(kind.element_type), tuple(kind.shape)))
    return tuple(found)
