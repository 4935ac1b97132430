"""The pass `stepwell-hoist-parameters`: moves computation on parameters to compile time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from ....dialects import discardable
from ....dialects.registry import OPS
from ....dialects.specs import size_of
from ....dialects.stepwell.constant import ConstantOp, ParameterOp
from ....dialects.stepwell.shape import RangeOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.functions import body_of, function_named, main_function
from ...ir.rewriting import identity, walk
from ..values import dtype_of, splat_of, static_shape

MAX_GROWTH = 16
"""An op stays in @main if its result has more than MAX_GROWTH times its operands' elements, and more than MAX_GROWN.

For comparison, padding a kernel of one tap to 3 x 3 taps makes it nine times as large, and Winograd's transform makes
one of nine taps
four times."""

MAX_GROWN = 1 << 16
"""Number of elements, 256 KiB of float32, up to which results may grow by any factor: a choice, as a few of them cost
little memory."""

MAX_NUMBERS = 1 << 24
"""Maximum length of a range computed at compile time, because a few bytes in a file could request any length."""


@register
@dataclass(frozen=True)
class HoistParametersPass(Pass):
    """Move computation that depends only on parameters and constants out of @main, into @init.

    @init runs once, at compile time; @main then reads its results as parameters. Constants of more than `max-elements`
    elements become parameters in the same way, so that the code contains no large tensors. Ops that would make a small
    parameter much larger (a broadcast) stay in @main, and so do splat results. Ranges of numbers move up to a maximum
    length, because no kernel computes them.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = "stepwell.parameter"() {name = "w", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
      %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "stepwell.add"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    // -->
    func.func @init(%w: tensor<4xf32> {stepwell.name = "w"}) -> (tensor<4xf32> {stepwell.name = "w.exp"}) {
      %0 = "stepwell.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = "stepwell.parameter"() {name = "w.exp", shape = array<i64: 4>, dtype = f32} : () -> tensor<4xf32>
      %1 = "stepwell.add"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```

    Preconditions: shapes are static where values are computed from parameters; there is no @init yet.

    Attributes:
        max_elements: maximum number of elements of a constant that stays in the code.
    """

    name = "stepwell-hoist-parameters"
    max_elements: int = 1024

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Splits @main. Assumes that `stepwell-cse` has run, so that equal results are one value."""
        main = main_function(op)
        if function_named(op, "init") is not None:
            return
        fixed = self._fixed_ops(main)
        init_results: list[ir.Value] = [
            result for item in fixed.values() for result in item.results if self._leaves_init(result, fixed)
        ]
        if init_results:
            _split(main, fixed, init_results)

    def _fixed_ops(self, main: ir.Operation) -> dict[int, ir.Operation]:
        """The ops in @main, including nested regions, that depend on no input, by identity."""
        fixed: dict[int, ir.Operation] = {}
        for inner in walk(main):
            if inner.name in OPS and _is_fixed(inner, fixed):
                fixed[identity(inner)] = inner
        return fixed

    def _leaves_init(self, value: ir.Value, fixed: dict[int, ir.Operation]) -> bool:
        owner = value.owner
        if owner.name == ParameterOp.OPERATION_NAME:
            return False
        if owner.name == ConstantOp.OPERATION_NAME and size_of(value) <= self.max_elements:
            return False
        readers = [use.owner.operation for use in value.uses]
        if owner.name == ConstantOp.OPERATION_NAME and not any(len(reader.results) for reader in readers):
            return splat_of(value) is None  # a returned splat is filled at run time instead
        return any(not len(reader.results) or identity(reader) not in fixed for reader in readers)


def _is_fixed(op: ir.Operation, fixed: dict[int, ir.Operation]) -> bool:
    if any(static_shape(result) is None for result in op.results):
        return False
    operands = list(op.operands)
    if not operands:
        return True
    if any(isinstance(value.owner, ir.Block) or identity(value.owner.operation) not in fixed for value in operands):
        return False
    made = max(size_of(result) for result in op.results)
    if op.name == RangeOp.OPERATION_NAME:
        return made <= MAX_NUMBERS
    return made <= MAX_GROWN or made <= MAX_GROWTH * sum(map(size_of, operands))


def _split(main: ir.Operation, fixed: dict[int, ir.Operation], init_results: list[ir.Value]) -> None:
    needed = _needed(init_results)
    sources: dict[str, ParameterOp] = {}
    for item in fixed.values():
        if identity(item) in needed and item.name == ParameterOp.OPERATION_NAME:
            sources.setdefault(ParameterOp(item).name, ParameterOp(item))
    init = _declare_init(main, list(sources.values()), init_results, _names(init_results))
    block = body_of(init)
    copies: dict[ir.Value, ir.Value] = {}
    arguments = dict(zip(sources, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for item in fixed.values():
            if identity(item) not in needed:
                continue
            if item.name == ParameterOp.OPERATION_NAME:
                copies[item.results[0]] = arguments[ParameterOp(item).name]
                continue
            clone = _clone(item, copies)
            copies.update(zip(item.results, clone.results, strict=True))
        func.ReturnOp([copies[value] for value in init_results], loc=main.location)
    _read_back(main, init_results, _names(init_results))


def _needed(init_results: list[ir.Value]) -> set[int]:
    """The ops, by identity, that compute the results of @init."""
    pending, needed = [value.owner.operation for value in init_results], set()
    while pending:
        op = pending.pop()
        if identity(op) not in needed:
            needed.add(identity(op))
            pending.extend(value.owner.operation for value in op.operands)
    return needed


def _clone(op: ir.Operation, copies: dict[ir.Value, ir.Value]) -> ir.Operation:
    return ir.Operation.create(
        op.name,
        results=[result.type for result in op.results],
        operands=[copies[value] for value in op.operands],
        attributes={name: op.attributes[name] for name in op.attributes},
        loc=op.location,
    )


def _declare_init(
    main: ir.Operation, sources: list[ParameterOp], init_results: list[ir.Value], names: list[str]
) -> ir.Operation:
    kind = ir.FunctionType.get([op.result.type for op in sources], [value.type for value in init_results])
    with ir.InsertionPoint(main), main.location:
        init = func.FuncOp("init", kind)
        init.add_entry_block()
    init.operation.attributes["arg_attrs"] = _name_attributes([op.name for op in sources])
    init.operation.attributes["res_attrs"] = _name_attributes(names)
    return init.operation


def _name_attributes(names: list[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.DictAttr.get(discardable.NAME.entry(name)) for name in names])


def _read_back(main: ir.Operation, init_results: list[ir.Value], names: list[str]) -> None:
    """Makes @main read the results of @init as parameters, and erases the ops that have become dead."""
    with ir.InsertionPoint.at_block_begin(body_of(main)):
        for value, name in zip(init_results, names, strict=True):
            shape = static_shape(value)
            read = ParameterOp(name=name, shape=shape, dtype=dtype_of(value), loc=value.owner.location)
            value.replace_all_uses_with(read.result)
    for inner in reversed(list(walk(main))):
        if inner.name in OPS and not any(True for result in inner.results for _ in result.uses):
            inner.erase()


def _names(init_results: list[ir.Value]) -> list[str]:
    """A name for each value, from the largest parameter that it is computed from and the op that computes it."""
    taken: dict[str, int] = {}
    names = []
    for value in init_results:
        stem = f"{_root_name(value)}.{value.owner.name.removeprefix('stepwell.')}"
        count = taken[stem] = taken.get(stem, -1) + 1
        names.append(stem if count == 0 else f"{stem}.{count}")
    return names


def _root_name(value: ir.Value) -> str:
    """The name of the largest parameter that a value is computed from."""
    pending, seen, best = [value.owner.operation], set(), (-1, "constant")
    while pending:
        op = pending.pop()
        if identity(op) in seen:
            continue
        seen.add(identity(op))
        if op.name == ParameterOp.OPERATION_NAME:
            view = ParameterOp(op)
            best = max(best, (math.prod(view.shape), view.name))
        pending.extend(operand.owner.operation for operand in op.operands)
    return best[1]
