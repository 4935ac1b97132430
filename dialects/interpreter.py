"""Runs a program of the stepwell dialect with numpy: the reference for every compiled result.

Besides the dialect's ops, evaluated by their references, it supports functions, `scf.if`, `scf.for` and `scf.while`,
and the few ops that convert between scalars and tensors. A tensor is a numpy array, a scalar a Python number. A tensor
is released after its last use, so the peak memory is that of the largest set of live tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from ..support.errors import StepwellError
from ..support.mapped import forget_pages
from ..support.wording import quantity
from .core import Op, OpError
from .dims import numbers
from .registry import view_of
from .stepwell.constant import ParameterOp
from .types import TensorSpec, array_of, spec_of_type


class EvaluationError(StepwellError):
    """A program cannot be evaluated; the message gives the reason, `location` the op."""

    def __init__(self, message: str, location: ir.Location | None = None) -> None:
        super().__init__(message)
        self.location = location


Around = Callable[[ir.Operation, Sequence[Any], Callable[[], Sequence[Any]]], Sequence[Any]]
"""Wraps an operation: gets it, its operands and a function that computes its results; returns the results."""


def evaluate(
    module: ir.Module | ir.Operation,
    entry: str,
    inputs: Sequence[np.ndarray],
    parameters: Mapping[str, np.ndarray],
    around: Around | None = None,
) -> list[np.ndarray]:
    """Returns the results of the function `entry` for `inputs`.

    Args:
        module: the program; it is not changed.
        entry: the name of a function whose arguments and results are tensors.
        inputs: one array per argument.
        parameters: the contents of `stepwell.parameter` ops, by name.
        around: wraps the evaluation of every operation, to observe it or to replace its results.

    Raises:
        EvaluationError: an input or parameter is not of the declared type, an op is not supported, or the contents of
            an op's operands (an index, a shape) break its rules.
    """
    interpreter = _Interpreter(module, parameters, around)
    function = interpreter.function(entry)
    arguments = function.regions[0].blocks[0].arguments
    if len(arguments) != len(inputs):
        raise EvaluationError(
            f"'{entry}' takes {quantity(len(arguments), 'input')}, but {len(inputs)} were given", function.location
        )
    for index, (argument, array) in enumerate(zip(arguments, inputs, strict=True)):
        _check_array(f"input {index} of '{entry}'", spec_of_type(argument.type), array, function.location)
    return interpreter.call(function, inputs)


@dataclass(frozen=True)
class _Step:
    """One operation of a block, and the values of the block that are dead after it."""

    operation: ir.Operation
    run: Callable[[_Interpreter, ir.Operation], Sequence[Any]]
    done_with: tuple[ir.Value, ...]


class _Interpreter:
    """The state of one evaluation: the values of the functions that are running."""

    def __init__(
        self, module: ir.Module | ir.Operation, parameters: Mapping[str, np.ndarray], around: Around | None
    ) -> None:
        self.parameters = parameters
        self._around = around
        self.values: dict[ir.Value, Any] = {}
        self._symbols = ir.SymbolTable(module.operation)
        self._plans: dict[ir.Block, list[_Step]] = {}

    def function(self, name: str) -> ir.Operation:
        """The function called `name`, which has a body.

        Raises:
            EvaluationError: there is no such function.
        """
        if name not in self._symbols or not len(self._symbols[name].operation.regions[0].blocks):
            raise EvaluationError(f"there is no function '{name}' with a body")
        return self._symbols[name].operation

    def call(self, function: ir.Operation, arguments: Sequence[Any]) -> list[Any]:
        """Calls a function and returns its results."""
        return self.block(function.regions[0].blocks[0], arguments)

    def block(self, block: ir.Block, arguments: Sequence[Any]) -> list[Any]:
        """Runs a block and returns the operands of its terminator."""
        self.values.update(zip(block.arguments, arguments, strict=True))
        *steps, last = self._plan(block)
        for step in steps:
            results = self._results(step)
            self.values.update(zip(step.operation.results, results, strict=True))
            for value in step.done_with:
                # Weights of a large model are mapped: together with tensors computed from them they might not fit into
                # memory.
                forget_pages(self.values.pop(value))
        yielded = self.operands(last.operation)
        for value in last.done_with:
            del self.values[value]
        return yielded

    def _results(self, step: _Step) -> Sequence[Any]:
        if self._around is None:
            return step.run(self, step.operation)
        operands = self.operands(step.operation)
        return self._around(step.operation, operands, lambda: step.run(self, step.operation))

    def operands(self, operation: ir.Operation) -> list[Any]:
        """The values of an operation's operands."""
        return [self.values[operand] for operand in operation.operands]

    def _plan(self, block: ir.Block) -> list[_Step]:
        if block not in self._plans:
            self._plans[block] = list(_steps(block))
        return self._plans[block]


def _steps(block: ir.Block) -> Iterator[_Step]:
    operations = [view.operation for view in block.operations]
    last_use: dict[ir.Value, int] = dict.fromkeys(block.arguments, 0)
    for index, operation in enumerate(operations):
        last_use.update(dict.fromkeys(operation.results, index))
        # A value of an enclosing block may be read again in the next iteration of a loop, so only the block's own
        # values are released.
        last_use.update((value, index) for value in _reads(operation) if value in last_use)
    done: dict[int, list[ir.Value]] = {}
    for value, index in last_use.items():
        done.setdefault(index, []).append(value)
    for index, operation in enumerate(operations):
        yield _Step(operation, _runner(operation), tuple(done.get(index, ())))


def _reads(operation: ir.Operation) -> Iterator[ir.Value]:
    """The values that an operation or an operation inside it reads."""
    yield from operation.operands
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                yield from _reads(inner.operation)


def _runner(operation: ir.Operation) -> Callable[[_Interpreter, ir.Operation], Sequence[Any]]:
    view = view_of(operation)
    if view is not None:
        return lambda interpreter, _: _run_op(interpreter, view)
    runner = _RUNNERS.get(operation.name)
    if runner is None:
        raise EvaluationError(f"'{operation.name}' cannot be evaluated", operation.location)
    return runner


def _run_op(interpreter: _Interpreter, op: Op) -> Sequence[np.ndarray]:
    if isinstance(op, ParameterOp):
        return [_parameter(interpreter, op)]
    try:
        return op.evaluate(interpreter.values.__getitem__)
    except (OpError, ValueError, IndexError, OverflowError) as error:
        raise EvaluationError(f"'{op.OPERATION_NAME}' {error}", op.operation.location) from error


def _parameter(interpreter: _Interpreter, op: ParameterOp) -> np.ndarray:
    name, location = op.name, op.operation.location
    if name not in interpreter.parameters:
        raise EvaluationError(f"parameter '{name}' was not given", location)
    array = interpreter.parameters[name]
    _check_array(f"parameter '{name}'", TensorSpec(op.shape, op.dtype), array, location)
    return array


def _check_array(name: str, spec: TensorSpec, array: np.ndarray, location: ir.Location) -> None:
    fits = len(array.shape) == spec.rank and all(
        size == dim or not isinstance(dim, int) for size, dim in zip(array.shape, spec.shape, strict=True)
    )
    if not fits or array.dtype != spec.dtype:
        raise EvaluationError(f"{name} must be {spec}, but is {TensorSpec(array.shape, array.dtype)}", location)


def _run_call(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
    return interpreter.call(interpreter.function(name), interpreter.operands(operation))


def _run_if(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    region = operation.regions[0 if interpreter.values[operation.operands[0]] else 1]
    return interpreter.block(region.blocks[0], []) if len(region.blocks) else []


def _run_for(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    lower, upper, step, *carried = interpreter.operands(operation)
    for index in range(lower, upper, step):
        carried = interpreter.block(operation.regions[0].blocks[0], [index, *carried])
    return carried


def _run_while(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    before, after = (region.blocks[0] for region in operation.regions)
    carried = interpreter.operands(operation)
    while True:
        goes_on, *values = interpreter.block(before, carried)
        if not goes_on:
            return values
        carried = interpreter.block(after, values)


def _run_constant(_: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    attribute = operation.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return [array_of(attribute)]
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
        return [attribute.value]
    raise EvaluationError(f"'arith.constant' of {attribute} cannot be evaluated", operation.location)


def _run_extract(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[Any]:
    array, *indices = interpreter.operands(operation)
    return [array[tuple(indices)].item()]


def _run_empty(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[np.ndarray]:
    spec, sizes = spec_of_type(operation.results[0].type), iter(interpreter.operands(operation))
    return [np.zeros([dim if isinstance(dim, int) else next(sizes) for dim in spec.shape], spec.dtype)]


def _run_extract_slice(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[np.ndarray]:
    array, *_ = interpreter.operands(operation)
    return [array[_box(operation)].reshape(numbers(spec_of_type(operation.results[0].type).shape))]


def _run_insert_slice(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[np.ndarray]:
    part, whole, *_ = interpreter.operands(operation)
    changed, box = whole.copy(), _box(operation)
    changed[box] = part.reshape(changed[box].shape)
    return [changed]


def _box(operation: ir.Operation) -> tuple[slice, ...]:
    """The elements that a slicing op with constant bounds selects."""
    names = ("static_offsets", "static_sizes", "static_strides")
    bounds = [list(ir.DenseI64ArrayAttr(operation.attributes[name])) for name in names]
    if ir.ShapedType.get_dynamic_size() in (number for row in bounds for number in row):
        raise EvaluationError(f"'{operation.name}' with computed bounds cannot be evaluated", operation.location)
    return tuple(slice(start, start + size * step, step) for start, size, step in zip(*bounds, strict=True))


def _run_from_elements(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[np.ndarray]:
    spec = spec_of_type(operation.results[0].type)
    return [np.array(interpreter.operands(operation), spec.dtype).reshape(numbers(spec.shape))]


def _run_compare(interpreter: _Interpreter, operation: ir.Operation) -> Sequence[bool]:
    predicate = ir.IntegerAttr(operation.attributes["predicate"]).value
    if predicate >= len(_PREDICATES):
        raise EvaluationError("unsigned 'arith.cmpi' cannot be evaluated", operation.location)
    return [_PREDICATES[predicate](*interpreter.operands(operation))]


def _scalar(function: Callable[..., Any]) -> Callable[[_Interpreter, ir.Operation], Sequence[Any]]:
    return lambda interpreter, operation: [function(*interpreter.operands(operation))]


# In the order of MLIR's enumeration: eq, ne, slt, sle, sgt, sge.
_PREDICATES = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_RUNNERS: dict[str, Callable[[_Interpreter, ir.Operation], Sequence[Any]]] = {
    # Terminators: the block returns their operands.
    "func.return": lambda interpreter, operation: [],
    "scf.yield": lambda interpreter, operation: [],
    "scf.condition": lambda interpreter, operation: [],
    "func.call": _run_call,
    "scf.if": _run_if,
    "scf.for": _run_for,
    "scf.while": _run_while,
    "arith.constant": _run_constant,
    "arith.index_cast": _scalar(int),
    "arith.addi": _scalar(operator.add),
    "arith.subi": _scalar(operator.sub),
    "arith.muli": _scalar(operator.mul),
    "arith.minsi": _scalar(min),
    "arith.maxsi": _scalar(max),
    "arith.andi": _scalar(operator.and_),
    "arith.ori": _scalar(operator.or_),
    "arith.xori": _scalar(operator.xor),
    "arith.select": _scalar(lambda condition, on_true, on_false: on_true if condition else on_false),
    "arith.cmpi": _run_compare,
    "tensor.cast": _scalar(lambda array: array),
    "tensor.dim": _scalar(lambda array, axis: array.shape[axis]),
    "tensor.empty": _run_empty,
    "tensor.extract": _run_extract,
    "tensor.extract_slice": _run_extract_slice,
    "tensor.from_elements": _run_from_elements,
    "tensor.insert_slice": _run_insert_slice,
}
