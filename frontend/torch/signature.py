"""The signature of an exported program: the roles of its inputs and outputs in the compiled model."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from ..errors import UnsupportedError
from ..imported import ModelInfo, ValueInfo
from .symbols import expression_of
from .tensors import COMPLEX, numpy_dtype

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
_NUMBERS = (SymIntArgument, SymFloatArgument, SymBoolArgument)


@dataclass(frozen=True)
class Input:
    """A placeholder of the graph.

    Attributes:
        name: its name in the graph.
        kind: "input" of the model, "size" that follows from the shapes of tensors, "state" that the model changes,
            "weight", or "constant".
        target: the name of state or of a weight in the module; for an input its name.
        constant: the number, string or None that a constant is.
        position: index among the flat arguments of a call; -1 for state and weights.
    """

    name: str
    kind: str
    target: str
    constant: Any = None
    position: int = -1


@dataclass(frozen=True)
class Output:
    """A result of the graph.

    Attributes:
        name: the node of the graph; "" for a constant.
        kind: "output" of the model, "state" that it changes, "mutation" of an input, or "constant".
        target: the name of the output, of the state, or of the input's placeholder.
        constant: the number, string or None that a constant is.
        is_number: whether it is a number of Python, not a tensor.
    """

    name: str
    kind: str
    target: str
    constant: Any = None
    is_number: bool = False


class Signature:
    """Inputs and outputs of an exported program.

    Attributes:
        inputs: its placeholders in order.
        outputs: its results in order.
        opaque: the dimensions that are expressions which cannot be written as a name or a sum.
    """

    def __init__(self, program: torch.export.ExportedProgram, names: Mapping[sympy.Symbol, str] | None = None) -> None:
        """Reads the signature; `names` are those of symbolic dimensions.

        Raises:
            UnsupportedError: an input or output is of a kind that cannot be compiled.
        """
        self._names = {symbol: sympy.Symbol(name) for symbol, name in (names or {}).items()}
        self.opaque: dict[str, sympy.Expr] = {}
        given = program.graph_signature
        changed = {str(spec.target) for spec in given.output_specs if spec.kind in _MUTATIONS}
        self._values = {node.name: node.meta.get("val") for node in program.graph.nodes}
        sizes = self._sizes_of_inputs(given)
        self._known = {size for size in sizes if isinstance(size, sympy.Symbol)}
        self.inputs: list[Input] = []
        for spec in given.input_specs:
            position = sum(item.position >= 0 for item in self.inputs)
            item = _input(spec, changed, position)
            is_size = item.kind == "input" and _is_size(self._values[item.name], sizes)
            self.inputs.append(replace(item, kind="size") if is_size else item)
        outputs = iter(_output_names(program))
        self.outputs = [_output(spec, outputs) for spec in given.output_specs]

    @property
    def taken(self) -> list[Input]:
        """The placeholders that are inputs of the compiled model."""
        return [item for item in self.inputs if item.kind in ("input", "state")]

    @property
    def returned(self) -> list[Output]:
        """The results that are outputs of the compiled model."""
        return [item for item in self.outputs if item.kind != "constant"]

    def info(self, name: str) -> ModelInfo:
        """Returns the inputs and outputs of the compiled model."""
        inputs = [self._value_info(item.target, self._values[item.name]) for item in self.taken]
        outputs = [self._value_info(item.target, self._values[item.name]) for item in self.returned]
        return ModelInfo(name, tuple(inputs), tuple(outputs))

    def value(self, name: str) -> Any:
        """Returns what torch knows about the result of a node."""
        return self._values[name]

    def _sizes_of_inputs(self, given: Any) -> set[Any]:
        """Returns the numbers and expressions that are sizes of inputs."""
        names = [spec.arg.name for spec in given.input_specs if isinstance(spec.arg, TensorArgument)]
        shapes = [value.shape for name in names if isinstance(value := self._values[name], torch.Tensor)]
        return {expression_of(size) for shape in shapes for size in shape}

    def dim(self, size: Any) -> int | str:
        """Returns a size as a number, or as the text of its expression over the names of dimensions.

        An expression with functions other than sums and products, or over a symbol that is no size of an input, becomes
        a dimension with a name of its own.
        """
        expression = expression_of(size)
        if isinstance(expression, int) or expression.is_number:
            return int(expression)
        text = str(expression.xreplace(self._names))
        if expression.is_polynomial() and expression.free_symbols <= self._known:
            return text
        name = re.sub(r"\W+", "_", text).strip("_")
        self.opaque[name] = expression
        return name

    def _value_info(self, name: str, value: Any) -> ValueInfo:
        if not isinstance(value, torch.Tensor):
            kinds = {torch.SymFloat: torch.float64, float: torch.float64, torch.SymBool: torch.bool, bool: torch.bool}
            return ValueInfo(name, numpy_dtype(kinds.get(type(value), torch.int64)), ())
        try:
            dtype = COMPLEX.get(value.dtype) or numpy_dtype(value.dtype)
        except UnsupportedError as error:
            raise UnsupportedError(f"'{name}' {error.reason}") from None
        return ValueInfo(name, dtype, tuple(self.dim(size) for size in value.shape))


def _is_size(value: Any, sizes: set[Any]) -> bool:
    """Returns whether a number is a size of an input, or follows from those that are symbols."""
    if not isinstance(value, torch.SymInt):
        return False
    return value.node.expr in sizes or value.node.expr.free_symbols <= sizes


def tensor_of(program: torch.export.ExportedProgram, name: str) -> torch.Tensor:
    """Returns a parameter, buffer or constant of a program."""
    state = program.state_dict
    found: Any = state[name] if name in state else program.constants[name]
    return found


def _input(spec: Any, changed: set[str], position: int) -> Input:
    if isinstance(spec.arg, ConstantArgument):
        return Input(spec.arg.name, "constant", spec.arg.name, spec.arg.value, position)
    if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, (TensorArgument, *_NUMBERS)):
        return Input(spec.arg.name, "input", spec.arg.name, None, position)
    if spec.kind in _WEIGHTS and isinstance(spec.arg, TensorArgument):
        return Input(spec.arg.name, "state" if spec.target in changed else "weight", spec.target)
    raise UnsupportedError(f"takes '{spec.arg.name}', a {spec.kind.name.lower()}, which is not supported")


def _output(spec: Any, names: Any) -> Output:
    target = next(names) if spec.kind is OutputKind.USER_OUTPUT else spec.target
    if isinstance(spec.arg, ConstantArgument):
        return Output("", "constant", target, spec.arg.value)
    is_number = isinstance(spec.arg, _NUMBERS)
    if spec.kind is OutputKind.USER_OUTPUT and (is_number or isinstance(spec.arg, TensorArgument)):
        return Output(spec.arg.name, "output", target, is_number=is_number)
    if spec.kind in _MUTATIONS:
        return Output(spec.arg.name, "state", target)
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        return Output(spec.arg.name, "mutation", target)
    raise UnsupportedError(f"returns a {spec.kind.name.lower()}, which is not supported")


def _output_names(program: torch.export.ExportedProgram) -> list[str]:
    """The names of the outputs: their paths in the structure that a call returns."""
    spec: Any = program.call_spec.out_spec
    paths = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[0]
    if len(paths) != spec.num_leaves:  # a class whose instances hold tensors only, such as a cache of transformers
        return [f"output.{place}" for place in range(spec.num_leaves)]
    return [".".join(["output" * (not path or _is_index(path[0])), *map(_key, path)]).strip(".") for path, _ in paths]


def _is_index(key: Any) -> bool:
    return isinstance(key, pytree.SequenceKey)


def _key(key: Any) -> str:
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))
