"""Imports exported programs: a graph of ATen ops becomes a function of stepwell ops, node by node."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from mlir import ir
from mlir.dialects import func
from torch.utils import _pytree as pytree

from ...dialects.core import OpError, spec_of
from ...dialects.dims import unknown
from ...dialects.registry import load_dialects
from ...dialects.stepwell.constant import ParameterOp
from ...dialects.types import TensorSpec, tensor_type
from ...passes.infra.failure import one_line
from ..build import constant
from ..counts import Counts
from ..errors import ModelError, NeedsPieces, NodeError, UnsupportedError
from ..imported import ImportedModel, ImportedNode, ValueInfo
from ..literals import is_literal, read_parameters
from ..main_signature import bound_inputs, declare, tensor_of
from ..randomness import KEY, random_bits
from .handler_arguments import converted, given_to
from .node import AtenNode, at_line, is_complex, location_of, name_of, obstacle_of_size, overload_of
from .pairs import Complex, parts_of, same_type
from .registry import complex_handler_for, handler_for, operator_for
from .signature import Input, Signature
from .signature import tensor_of as weight_of
from .symbols import Symbols, expression_of, symbols_of
from .tensors import as_array, part_dtype

MAX_LITERAL = 16
"""Maximum number of elements of a weight that becomes a literal; larger ones are parameters."""

ASSERTIONS = frozenset(
    {
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
        "aten._assert_async.msg",
        "aten._linalg_check_errors.default",
    }
)
"""Ops that only check, which compiled code does not."""

_NUMBER_TYPES = {torch.SymInt: np.dtype(np.int64), torch.SymFloat: np.dtype(np.float64), torch.SymBool: np.dtype(bool)}


def import_program(
    program: torch.export.ExportedProgram,
    context: ir.Context,
    name: str,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]] | None = None,
    counts_elements: bool = True,
    keeps_weights: bool = False,
) -> ImportedModel:
    """Makes a module of stepwell ops from an exported program whose ops have been decomposed.

    @main takes the program's inputs and the state that it changes, and returns its outputs and the changed state.

    Args:
        program: the program.
        context: the MLIR context of the module.
        name: the program's name in messages.
        signature: its inputs and outputs.
        shapes: shapes for some or all inputs, by name; a symbol bound by one is bound for all.
        counts_elements: whether sizes of results may depend on data; if not, ops with such results are rejected.
        keeps_weights: whether parameters of modules are parameters, however small, so that they can be trained.

    Raises:
        ModelError: an op is not supported; the error names it, its module and its line of Python.
    """
    load_dialects(context)
    with context, ir.Location.unknown():
        try:
            importer = ProgramImporter(program, name, signature, shapes or {}, counts_elements)
            importer.keeps_weights = keeps_weights
            return importer.run()
        except ModelError as error:
            raise error.at(model=name) from None


def failures_of(
    program: torch.export.ExportedProgram,
    name: str,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    counts_elements: bool = True,
) -> dict[torch.fx.Node, ModelError]:
    """Returns the nodes of a program's graph that cannot be imported for input shapes, each with the reason.

    Raises:
        ModelError: an input or weight cannot be imported.
    """
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        importer = ProgramImporter(program, name, signature, shapes, counts_elements, survey=True)
        importer.run()
        return importer.failures


class ProgramImporter:
    """The state of one import.

    Attributes:
        parameters: the weights found so far.
        symbols: the values of symbolic sizes.
        counts: the values whose size depends on data.
        keeps_weights: whether parameters of modules are parameters, however small.
        failures: in a survey, the nodes of the outer graph that cannot be imported; arguments of @main stand in for
            their results.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        name: str,
        signature: Signature,
        shapes: Mapping[str, Sequence[int]],
        counts_elements: bool,
        survey: bool = False,
    ) -> None:
        self.counts = Counts(counts_elements)
        self._program, self._name, self._survey = program, name, survey
        self.keeps_weights = False
        self._choices = 0
        self.failures: dict[torch.fx.Node, ModelError] = {}
        self._signature = signature
        self._info = self._signature.info(name)
        self._dims = bound_inputs(self._info, shapes)
        self._nodes: list[ImportedNode] = []
        self._weights: dict[tuple[Any, ...], str] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.symbols = Symbols({})

    def run(self) -> ImportedModel:
        """Imports the program."""
        signature = self._signature
        if not signature.returned and not self._survey:
            raise NeedsPieces("has no outputs that are computed")
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            types = [tensor_of(info, dims) for info, dims in zip(self._interface(), self._dims, strict=True)]
            main = func.FuncOp("main", (types, []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = {item.name: value for item, value in zip(signature.taken, block.arguments, strict=True)}
            self.symbols = Symbols(symbols_of(self._program.graph, arguments))
            values = [self._placeholder(item, arguments) for item in signature.inputs]
            results = self.graph(self._program.graph_module, values)
            kept = [result for result, item in zip(results, signature.outputs, strict=True) if item.kind != "constant"]
            if self._survey:
                return ImportedModel(module, {}, self._name, self._info)
            outputs = [self._output(result, info) for result, info in zip(kept, self._info.outputs, strict=True)]
            counts, counted = self.counts.returned(outputs)
            func.ReturnOp([*outputs, *counts])
        declare(main, self._info, self._dims, outputs, counted)
        parameters = read_parameters(main, self.parameters)
        return ImportedModel(module, parameters, self._name, self._info, self._nodes)

    def _interface(self) -> Sequence[ValueInfo]:
        """The inputs.

        Raises:
            NeedsPieces: inputs or outputs are complex, which the interface of code cannot be.
        """
        values = (*self._info.inputs, *self._info.outputs)
        found = [info.name for info in values if info.dtype.kind == "c"]
        if found and not self._survey:
            raise NeedsPieces(f"has complex inputs or outputs ({', '.join(found)})")
        return [replace(info, dtype=parts_of(info.dtype)) for info in self._info.inputs]

    def graph(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
        """Imports a graph at the insertion point; returns its results.

        Symbols that only this graph has are bound by its inputs.
        """
        values: dict[torch.fx.Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
                self.symbols.bind(node.meta.get("val"), values[node])
            elif node.op == "get_attr":
                values[node] = self._attribute(module, node)
            elif node.op == "output":
                made: Any = node.args[0]
                is_outer = module is self._program.graph_module
                if not is_outer and any(values[item] in self.counts for item in node.all_input_nodes):
                    raise UnsupportedError("has a graph that returns a tensor whose size depends on data")
                return [converted(item, values) for item in (made if isinstance(made, list | tuple) else [made])]
            else:
                with location_of(node):
                    values[node] = self._imported(node, values, is_outer=module is self._program.graph_module)
        raise ModelError("has a graph without results")

    @contextlib.contextmanager
    def inner(self) -> Iterator[None]:
        """Drops, at the end of a region, the sizes found inside of it, because its values cannot be read outside."""
        outer = self.symbols
        self.symbols = outer.copy()
        try:
            yield
        finally:
            self.symbols = outer

    def bits(self, shape: Sequence[int]) -> ir.Value | None:
        """Creates random bits, ui32; None if the import is not for training."""
        if not self.keeps_weights:
            return None
        self.parameters.setdefault(KEY, np.zeros((), np.int64))
        key = ParameterOp(name=KEY, shape=(), dtype=np.dtype(np.int64)).operation.result
        self._choices += 1
        return random_bits(key, self._choices, shape)

    def weight(self, name: str, array: np.ndarray) -> ir.Value:
        """Creates a stored tensor: a literal if it is small and need not be kept, else a parameter.

        Equal memory is stored once.
        """
        if array.size <= MAX_LITERAL and not (self.keeps_weights and name in self._program.graph_signature.parameters):
            return constant(np.array(array))
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if key not in self._weights:
            unique = name
            while unique in self.parameters:
                unique += "_"
            self._weights[key] = unique
            # `ascontiguousarray` makes a vector of a scalar.
            stored = np.ascontiguousarray(array).reshape(array.shape)
            stored.flags.writeable = False
            self.parameters[unique] = stored
        return ParameterOp(name=self._weights[key], shape=array.shape, dtype=array.dtype).operation.result

    def _placeholder(self, item: Input, arguments: Mapping[str, ir.Value]) -> Any:
        if item.kind == "constant":
            return item.constant
        if item.kind == "size":
            return self.symbols.number(self._signature.value(item.name))
        known = self._signature.value(item.name)
        if item.kind != "weight":
            is_complex = isinstance(known, torch.Tensor) and known.is_complex()
            return self._stand_in(known) if is_complex else arguments[item.name]
        tensor = weight_of(self._program, item.target)
        try:
            with ir.Location.name(item.target):
                array = as_array(tensor)
                if array.dtype.kind != "c":
                    return self.weight(item.target, array)
                parts = {"real": array.real, "imag": array.imag}
                return Complex(*(self.weight(f"{item.target}.{name}", value.copy()) for name, value in parts.items()))
        except UnsupportedError as error:
            raise UnsupportedError(f"the weight '{item.target}' {error.reason}") from None

    def _attribute(self, module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
        found: Any = module
        for part_of_path in str(node.target).split("."):
            found = getattr(found, part_of_path)
        if not isinstance(found, torch.Tensor):
            return found
        with ir.Location.name(str(node.target)):
            return self.weight(str(node.target), as_array(found))

    def _imported(self, fx: torch.fx.Node, values: Mapping[torch.fx.Node, Any], is_outer: bool) -> Any:
        """Imports a node; in a survey, one of the outer graph that cannot be imported is recorded."""
        if not self._survey or not is_outer:
            reads = not _is_of_sizes(fx.meta.get("val"), self.symbols) and overload_of(fx.target) not in ASSERTIONS
            if reads and any(values[item] in self.counts for item in fx.all_input_nodes):
                raise NeedsPieces("reads a tensor whose size depends on data")
            return self._located(fx, values)
        try:
            for item in fx.all_input_nodes:
                if isinstance(known := item.meta.get("val"), torch.Tensor) and values[item] is None:
                    part_dtype(known.dtype)
            made = self._located(fx, values)
            if not any(item in self.counts for item in _as_tuple(made)):
                return made
        except ModelError as error:
            self.failures[fx] = error
        return pytree.tree_map(self._stand_in, fx.meta.get("val"))

    def _stand_in(self, known: Any) -> Any:
        """A value for a result that is not imported; None if it is of a type without code."""
        try:
            dtype = part_dtype(known.dtype) if isinstance(known, torch.Tensor) else _NUMBER_TYPES.get(type(known))
        except UnsupportedError:
            return None
        if dtype is None:
            return known
        shape = known.shape if isinstance(known, torch.Tensor) else ()
        dims = tuple(size if isinstance(size, int) else unknown() for size in shape)
        block = ir.InsertionPoint.current.block
        kind = tensor_type(TensorSpec(dims, dtype))
        value = block.add_argument(kind, ir.Location.unknown())
        self.symbols.bind(known, value)
        if isinstance(known, torch.Tensor) and known.is_complex():
            return Complex(value, block.add_argument(kind, ir.Location.unknown()))
        return value

    def _located(self, fx: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> Any:
        """Imports a node; errors name it, its op and its line."""
        op_type = overload_of(fx.target)
        try:
            return self._node(fx, op_type, values)
        except ModelError as error:
            if not error.op_type:
                error.reason += at_line(fx)
            error.at(node=name_of(fx), op_type=op_type)
            raise
        except (OpError, ArithmeticError, LookupError, ValueError, TypeError) as error:
            raise NodeError(f"{error}{at_line(fx)}").at(node=name_of(fx), op_type=op_type) from error
        except Exception as error:  # handlers are code, also of plug-ins
            reason = f"its importer failed with {type(error).__name__}: {one_line(str(error))}"
            raise NodeError(f"{reason}{at_line(fx)}").at(node=name_of(fx), op_type=op_type) from error

    def _node(self, fx: torch.fx.Node, op_type: str, values: Mapping[torch.fx.Node, Any]) -> Any:
        known = fx.meta.get("val")
        if op_type in ASSERTIONS:
            return None
        if _is_of_sizes(known, self.symbols):
            return self.symbols.number(known)
        if op_type == "getitem":
            return self._item(fx, values)
        if reason := obstacle_of_size(fx):
            raise UnsupportedError(reason)
        node, operator = AtenNode(fx, self), operator_for(op_type)
        handler = complex_handler_for(op_type) if is_complex(fx) else handler_for(op_type)
        if handler is not None:
            results = handler(node, **given_to(handler, fx, values))
        elif operator is not None:
            results = operator(node, *[converted(item, values) for item in fx.args])
        else:
            raise UnsupportedError("is not supported")
        self._check(node, results)
        for value, result in zip(_as_tuple(results), node.results, strict=False):
            if value not in self.counts:
                self.symbols.bind(result, value)
            else:
                axis, number = self.counts[value]
                self.symbols.bind(result.shape[axis], number)
        parts = (value.parts if isinstance(value, Complex) else [value] for value in _as_tuple(results))
        made = [value for group in parts for value in group if isinstance(value, ir.Value)]
        taken = [value for value in map(values.get, fx.all_input_nodes) if isinstance(value, ir.Value)]
        is_constant = all(map(is_literal, made))
        types = tuple(value.type for value in taken), tuple(value.type for value in made)
        self._nodes.append(ImportedNode(node.name, op_type, *types, is_constant))
        return results

    def _item(self, fx: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> Any:
        source, index = cast(torch.fx.Node, fx.args[0]), cast(int, fx.args[1])
        results = values[source]
        if index < len(results) and results[index] is not None:
            return results[index]
        if not fx.users:
            return None
        raise UnsupportedError(f"reads result {index} of {overload_of(source.target)}, which is not supported")

    def _check(self, node: AtenNode, results: Any) -> None:
        """Checks types and known sizes against those that torch computes.

        Raises:
            NodeError: they differ.
        """
        for made, known in zip(_as_tuple(results), node.results, strict=False):
            if not isinstance(known, torch.Tensor) or not isinstance(made, Complex | ir.Value):
                continue
            for part in made.parts if isinstance(made, Complex) else [made]:
                if isinstance(made, Complex) != known.is_complex() or not same_type(spec_of(part), known):
                    raise NodeError(f"is a {known.dtype} of shape {list(known.shape)}, but is imported as {part.type}")

    def _output(self, result: Any, info: ValueInfo) -> ir.Value:
        if isinstance(result, ir.Value):
            return result
        if result is None:
            raise UnsupportedError(f"the output '{info.name}' is not supported")
        return constant(np.array(result, info.dtype))


def _is_of_sizes(value: Any, symbols: Symbols) -> bool:
    """Returns whether a value is a number that follows from the sizes of the inputs."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
        return False
    free = getattr(expression_of(value), "free_symbols", ())
    return all(symbol in symbols.values for symbol in free)


def _as_tuple(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)
