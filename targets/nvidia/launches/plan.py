"""Translation of `@main` in the phase `nvvm` to a launch plan, which the runtime executes instead of native code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.types import array_of
from ....passes.infra.base import PassError
from ....passes.ir.functions import main_function
from ....runtime import launch_plan as plans
from .record_launches import element_bytes

_STATIC_LAUNCHES = "the launches of a GPU program must be known at compile time"
_MOST_STEPS = 1 << 14
"""Maximum number of steps of a plan; reading a longer one takes longer than running the loop on the host."""
_ARITHMETIC: Mapping[str, Callable[..., int]] = {
    "arith.addi": operator.add,
    "arith.index_cast": int,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.muli": operator.mul,
    "arith.subi": operator.sub,
}

_GROUPS = (plans.INPUT, plans.OUTPUT, plans.PARAMETER, plans.ARENA)


def plan_of(module: ir.Module, groups: Sequence[int]) -> tuple[plans.LaunchPlan, list[np.ndarray]]:
    """Returns the steps of a module's `@main`, and its constants as the contents of additional parameters.

    Args:
        module: IR in the phase `nvvm`.
        groups: number of inputs, outputs (guards included) and parameters of `@main`, in this order.

    Raises:
        PassError: `@main` has launches that depend on run-time values, which only the host can execute.
    """
    return _Planner(module, groups).run()


class _Planner:
    """Evaluates `@main` symbolically: tracks the buffer or the number of every value."""

    def __init__(self, module: ir.Module, groups: Sequence[int]) -> None:
        self._main = main_function(module.operation)
        self._symbols = ir.SymbolTable(module.operation)
        self._places: dict[ir.Value, plans.BufferSlice] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._globals: dict[str, int] = {}
        self._constants: list[np.ndarray] = []
        self._parameters = groups[2]
        arguments = iter(self._main.regions[0].blocks[0].arguments)
        for space, count in zip(_GROUPS, (*groups, 1), strict=True):
            for index in range(count):
                argument = next(arguments)
                self._places[argument] = plans.BufferSlice(space, index, 0, _size(argument.type))
        self._arena = _size(self._main.regions[0].blocks[0].arguments[sum(groups)].type)

    def run(self) -> tuple[plans.LaunchPlan, list[np.ndarray]]:
        """Returns the plan and the constants."""
        steps = self._block(self._main.regions[0].blocks[0])
        return plans.LaunchPlan(tuple(steps), self._arena), self._constants

    def _block(self, block: ir.Block) -> list[plans.DeviceStep]:
        return [step for op in block.operations for step in self._steps(op.operation)]

    def _steps(self, op: ir.Operation) -> list[plans.DeviceStep]:
        match op.name:
            case "arith.constant":
                if isinstance(op.attributes["value"], ir.IntegerAttr):
                    self._numbers[op.results[0]] = ir.IntegerAttr(op.attributes["value"]).value
            case "memref.view":
                place = self._places[op.operands[0]]
                start = place.offset + self._number(op, op.operands[1])
                self._places[op.results[0]] = replace(place, offset=start, bytes=_size(op.results[0].type))
            case "memref.reinterpret_cast" | "memref.cast":
                place = self._places[op.operands[0]]
                self._places[op.results[0]] = replace(place, bytes=_size(op.results[0].type))
            case "memref.get_global":
                self._places[op.results[0]] = self._constant(op)
            case "memref.copy":
                return [self._copy(op)]
            case "func.call":
                return self._launches(op)
            case "scf.for":
                return self._loop(op)
            case "func.return" | "memref.dealloc" | "scf.yield":
                pass
            case _:
                if op.name not in _ARITHMETIC:
                    raise PassError(f"'{op.name}' op in @main: {_STATIC_LAUNCHES}", op.location)
                numbers = [self._number(op, value) for value in op.operands]
                self._numbers[op.results[0]] = _ARITHMETIC[op.name](*numbers)
        return []

    def _number(self, op: ir.Operation, value: ir.Value) -> int:
        if value not in self._numbers:
            raise PassError(f"'{op.name}' op in @main depends on a run-time value: {_STATIC_LAUNCHES}", op.location)
        return self._numbers[value]

    def _loop(self, op: ir.Operation) -> list[plans.DeviceStep]:
        """Returns the steps of all iterations in order."""
        start, stop, step = (self._number(op, value) for value in list(op.operands)[:3])
        body, steps = op.regions[0].blocks[0], []
        carried = [self._number(op, value) for value in list(op.operands)[3:]]
        for index in range(start, stop, step):
            self._numbers |= dict(zip(body.arguments, [index, *carried], strict=True))
            steps += self._block(body)
            if len(steps) > _MOST_STEPS:
                raise PassError(f"'{op.name}' op in @main takes more than {_MOST_STEPS} steps", op.location)
            end = body.operations[len(body.operations) - 1].operation
            carried = [self._number(end, value) for value in end.operands]
        self._numbers |= dict(zip(op.results, carried, strict=True))
        return steps

    def _constant(self, op: ir.Operation) -> plans.BufferSlice:
        name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
        if name not in self._globals:
            self._globals[name] = self._parameters + len(self._constants)
            self._constants.append(np.array(array_of(self._symbols[name].attributes["initial_value"])))
        return plans.BufferSlice(plans.PARAMETER, self._globals[name], 0, _size(op.results[0].type))

    def _copy(self, op: ir.Operation) -> plans.DeviceCopy:
        for value in op.operands:
            kind = ir.MemRefType(value.type)
            if _size(kind) != int(np.prod(kind.shape, dtype=np.int64)) * element_bytes(kind.element_type):
                raise PassError("'memref.copy' op: expected contiguous memory", op.location)
        return plans.DeviceCopy(self._places[op.operands[0]], self._places[op.operands[1]])

    def _launches(self, op: ir.Operation) -> list[plans.DeviceStep]:
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        kernel = self._symbols[name].operation
        launches = discardable.LAUNCHES.read(kernel)
        if launches is None:
            raise PassError(f"kernel @{name} has no launches", op.location)
        operands = [self._places[value] for value in op.operands]
        return [launch_of(name, launch, operands) for launch in launches]


def launch_of(name: str, launch: ir.DictAttr, operands: Sequence[plans.BufferSlice]) -> plans.Launch:
    """Returns a launch of a kernel as a step of the plan.

    Args:
        name: name of the kernel.
        launch: the launch as `stepwell-record-launches` records it.
        operands: operands of the kernel.
    """
    arguments = [_argument(ir.DictAttr(item), operands) for item in ir.ArrayAttr(launch["arguments"])]
    return plans.Launch(
        module=name,
        entry=ir.StringAttr(launch["entry"]).value,
        grid=_dims(launch["grid"]),
        block=_dims(launch["block"]),
        arguments=tuple(arguments),
        cluster=_dims(launch["cluster"]),
        shared_bytes=ir.IntegerAttr(launch["shared_bytes"]).value,
        kernel=name,
    )


def _argument(entry: ir.DictAttr, operands: Sequence[plans.BufferSlice]) -> plans.LaunchArgument:
    number, offset, size = (ir.IntegerAttr(entry[name]).value for name in ("argument", "offset", "bytes"))
    place = operands[number]
    part = replace(place, offset=place.offset + offset, bytes=min(size, place.bytes - offset))
    if "map" not in entry:
        return part
    described = ir.DictAttr(entry["map"])
    lists = {name: tuple(ir.DenseI64ArrayAttr(described[name])) for name in ("sizes", "strides", "box", "steps")}
    start = ir.IntegerAttr(described["offset"]).value
    return plans.TensorMap(
        buffer=replace(part, offset=part.offset + start, bytes=part.bytes - start),
        element=ir.StringAttr(described["element"]).value,
        swizzle=ir.IntegerAttr(described["swizzle"]).value,
        fill=ir.StringAttr(described["fill"]).value,
        promotion=ir.IntegerAttr(described["promotion"]).value,
        **lists,
    )


def _dims(attribute: ir.Attribute) -> plans.GridDims:
    x, y, z = ir.DenseI64ArrayAttr(attribute)
    return x, y, z


def _size(kind: ir.Type) -> int:
    """Returns the number of bytes from the first element of a memref to the end of its last."""
    memory = ir.MemRefType(kind)
    if 0 in memory.shape:
        return 0
    strides, _ = memory.get_strides_and_offset()
    last = sum((extent - 1) * stride for extent, stride in zip(memory.shape, strides, strict=True))
    return (1 + last) * element_bytes(memory.element_type)
