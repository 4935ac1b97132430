"""Imports ONNX models: a graph becomes a function of stepwell ops, node by node.

Each node's handler (see `registry`) builds equivalent ops. Everything that can be computed during the import is: with
known input shapes this includes all arithmetic on shapes, so that conditions on shapes select their branch at once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import numpy as np
import onnx
from mlir import ir
from mlir.dialects import func

from ...dialects import discardable
from ...dialects.core import OpError, spec_of
from ...dialects.dims import Dim, Symbolic
from ...dialects.registry import load_dialects
from ...dialects.stepwell.constant import ConstantOp, ParameterOp
from ...dialects.types import is_float
from ..build import constant
from ..counts import Counts
from ..errors import ModelError, NeedsContents, NeedsShapes, NodeError, SizedByData, UnsupportedError
from ..imported import ImportedModel, ImportedNode, ModelInfo
from ..literals import is_literal, read_parameters
from ..main_signature import PortDims, bound_inputs, declare, tensor_of
from . import ops as _registered  # noqa: F401  (importing the package registers the handlers)
from .nodes.context import Checked
from .nodes.definitions import definition_of
from .nodes.functions import FunctionTable
from .nodes.lists import TAKE_SEQUENCES, ValueList, has_lists, tensors_of
from .nodes.node import Node
from .nodes.origins import Origins, is_dynamic
from .nodes.registry import OnnxHandler, handler_for
from .nodes.scope import Scope, Unavailable
from .ops.parts.spans import only_reduced, span_of
from .reading.limits import MAX_NODES
from .reading.model import Model, describe_model, opsets, read_model
from .reading.names import node_name, normal_domain
from .reading.weights import tensor_array
from .survey import check_native, check_supported, names_read, needed_nodes, settings_read

MAX_LITERAL = {"f": 16, "i": 64, "u": 64, "b": 64}
"""Maximum number of elements of a literal by kind of element; larger ones are parameters. Integers are often shapes."""

MAX_BOUND = 64
"""Maximum number of elements of an input whose contents a compile may require."""

MAX_BOUND_FLOATS = 8
"""The same limit for floating-point inputs, which are rarely sizes."""


def import_model(
    model: bytes | str | Path | onnx.ModelProto | Model,
    context: ir.Context,
    shapes: Mapping[str, Sequence[Dim]] | None = None,
    contents: Mapping[str, np.ndarray] | None = None,
    *,
    sized: bool = False,
    checked: Checked = False,
    counts_elements: bool = True,
    keeps_weights: bool = False,
) -> ImportedModel:
    """Makes a module of stepwell ops from an ONNX model.

    @main takes the model's inputs and returns its outputs, all with the attributes `stepwell.name` and `stepwell.dims`.
    If a branch of the model cannot work on the inputs' shapes, a result with `stepwell.guard` follows the outputs: a
    scalar bool that is false if a run would have taken that branch, so that its outputs are meaningless. If the size of
    an output depends on data, the output has room for the most elements, and a further result with `stepwell.count` is
    its size.

    Args:
        model: the file's path or its bytes, or the result of `read_model`.
        context: the MLIR context of the module.
        shapes: shapes for some or all inputs, by name; a symbol bound by one is bound for all.
        contents: the contents of some inputs, by name; the module does not read those inputs.
        sized: whether the size of every result must follow from `shapes` and `contents`.
        checked: whether indices and divisors are guarded (see `data_checks`): all, or only those of inputs.
        counts_elements: whether sizes of results may depend on data; if not, nodes with such results are rejected.
        keeps_weights: whether weights of floating point are parameters, however small, so that they can be trained.

    Raises:
        ModelError: the model is damaged, or uses unsupported features.
        NeedsContents: a node can only be imported if more contents of inputs are known.
        NeedsShapes: a node can only be imported for known input shapes, and `shapes` does not give them.
        OSError: the file cannot be read.
    """
    source = model if isinstance(model, Model) else read_model(model)
    load_dialects(context)
    try:
        with context, ir.Location.unknown():
            importer = Importer(source, shapes or {}, contents or {}, sized, checked, counts_elements, keeps_weights)
            return importer.run()
    except ModelError as error:
        error.at(model=source.name)
        raise


class Importer:
    """The state of one import, shared by all of its handlers.

    Attributes:
        folder: the folder of the model's external data; None if there is none.
        parameters: the weights found so far.
        is_specialized: whether the shape of every input is known.
        keeps_weights: whether the model is imported for training.
        choices: number of random choices so far.
        checked: whether indices and divisors are guarded: all, or only those of inputs.
        counts: the values whose size depends on data.
        appends_caches: whether caches of keys and values grow at their end.
    """

    appends_caches = False

    def __init__(
        self,
        model: Model,
        shapes: Mapping[str, Sequence[Dim]],
        contents: Mapping[str, np.ndarray] | None = None,
        sized: bool = False,
        checked: Checked = False,
        counts_elements: bool = True,
        keeps_weights: bool = False,
    ) -> None:
        self._model, self.keeps_weights, self.choices = model, keeps_weights, 0
        self._contents = contents or {}
        self._info = self._main_info(model)
        self._dims = bound_inputs(self._info, shapes)
        self._functions = FunctionTable(model)
        self._node_count, self._nodes = 0, list[ImportedNode]()
        self.folder = model.folder
        self.parameters: dict[str, np.ndarray] = {}
        self.checked: Checked = checked
        self.counts = Counts(counts_elements)
        self.is_specialized = not any(isinstance(dim, str) for dims in self._dims for dim in dims)
        self._must_size = sized and self.is_specialized

    @property
    def is_static(self) -> bool:
        """Returns whether the model itself declares the shape of every input."""
        return self._info.is_static

    def input_name(self, argument: ir.BlockArgument) -> str | None:
        """The name of the input for an argument of @main; None for an argument of an inner block."""
        owner = argument.owner.owner
        return self._info.inputs[argument.arg_number].name if owner.operation.name == "func.func" else None

    def run(self) -> ImportedModel:
        """Imports the model."""
        check_native(self._info)
        proto = self._model.proto
        versions = opsets(proto.opset_import, self._model.name)
        check_supported(proto.graph, versions, self._functions)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp(
                "main", ([tensor_of(info, dims) for info, dims in zip(self._info.inputs, self._dims, strict=True)], [])
            )
        block = main.add_entry_block()
        scope = Scope(versions=versions)
        with ir.InsertionPoint(block):
            for name, value in self._given(block.arguments).items():
                scope.define(name, value)
            values = self._returned(self._graph(proto.graph, scope, self._model.initializers))
            if not all(isinstance(value, ir.Value) for value in values):
                raise UnsupportedError("returns a sequence")
            self._check_outputs(values)
            counts, counted = self.counts.returned(values)
            func.ReturnOp([*values, *(guard.holds for guard in scope.guards), *counts])
        guards = [ir.DictAttr.get(discardable.GUARD.entry(guard.reason)) for guard in scope.guards]
        declare(main, self._info, self._dims, values, [*guards, *counted])
        results = {name: value for name, value in scope.values.items() if _is_read(value)}
        parameters = read_parameters(main, self.parameters)
        return ImportedModel(module, parameters, self._model.name, self._info, self._nodes, results)

    def _main_info(self, model: Model) -> ModelInfo:
        """Returns the inputs and outputs of @main."""
        return describe_model(model)

    def _given(self, arguments: Sequence[ir.Value]) -> dict[str, ir.Value]:
        """Returns the inputs of the graph by name, for the arguments of @main."""
        pairs = {info.name: argument for info, argument in zip(self._info.inputs, arguments, strict=True)}
        return {name: constant(self._contents[name]) if name in self._contents else pairs[name] for name in pairs}

    def _returned(self, values: list[ir.Value]) -> list[ir.Value]:
        """Returns the outputs of @main, for those of the graph."""
        return values

    def graph(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        weights: Iterable[onnx.TensorProto] | None = None,
        reduced: Collection[int] = (),
    ) -> list[ir.Value]:
        """Imports a graph at the insertion point, with the names in `scope`; returns its outputs.

        Args:
            graph: the graph.
            scope: the scope in which its names are defined.
            weights: its weights, if they are stored outside it.
            reduced: indices of its outputs that only reductions read.

        Raises:
            SizedByData: the size of an output depends on data.
        """
        values = self._graph(graph, scope, weights, reduced)
        for output, value in zip(graph.output, values, strict=True):
            self._check_size(value, output.name, "returns")
        return values

    def _graph(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        weights: Iterable[onnx.TensorProto] | None = None,
        reduced: Collection[int] = (),
    ) -> list[ir.Value]:
        self._weights(graph, scope, graph.initializer if weights is None else weights)
        scope.spans = only_reduced(graph, reduced)
        self.nodes(needed_nodes(graph), scope)
        return [_output(scope, output.name) for output in graph.output]

    def inline(self, graph: onnx.GraphProto, scope: Scope, reduced: Collection[int] = ()) -> list[ir.Value]:
        """Imports an inner graph in place of its node; only reductions read the outputs in `reduced`."""
        inner = Scope(scope)
        values = self._graph(graph, inner, reduced=reduced)
        scope.guards.extend(inner.guards)
        return values

    def nodes(self, nodes: Iterable[tuple[int, onnx.NodeProto]], scope: Scope) -> None:
        """Imports nodes, given with their indices, in order.

        Raises:
            ModelError: a node cannot be imported; the error names it.
        """
        for index, proto in nodes:
            name = scope.prefix + node_name(proto, index)
            try:
                with ir.Location.name(name):
                    self._node(proto, name, scope)
            except (OpError, ArithmeticError, LookupError, ValueError) as error:
                raise NodeError(str(error)).at(node=name, op_type=proto.op_type, position=index) from error
            except MemoryError as error:
                reason = f"needs more memory than is available: {error}"
                raise NodeError(reason).at(node=name, op_type=proto.op_type, position=index) from error
            except NeedsShapes as error:
                raise self._needing(error, proto, scope).at(node=name, op_type=proto.op_type, position=index) from None
            except ModelError as error:
                error.at(node=name, op_type=proto.op_type, position=index)
                raise

    def _node(self, proto: onnx.NodeProto, name: str, scope: Scope) -> None:
        self._node_count += 1
        if self._node_count > MAX_NODES:
            raise ModelError(f"expands to more than {MAX_NODES} nodes")
        inputs = [scope.lookup(item) if item else None for item in proto.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        if has_lists(inputs) and proto.op_type not in TAKE_SEQUENCES:
            raise UnsupportedError("reads a sequence")
        for item, value in zip(proto.input, inputs, strict=False):
            self._check_size(value, item, "reads")
        place = len(self._nodes)
        results = self._results(proto, name, scope, inputs)
        made = tensors_of(results)
        is_constant = all(map(is_literal, made))
        taken = tuple(value.type for value in tensors_of(inputs))
        node = ImportedNode(name, proto.op_type, taken, tuple(value.type for value in made), is_constant)
        self._nodes.insert(place, node)  # before the nodes of its inner graphs
        if self._must_size:
            may_vary = scope.spans.issuperset(proto.output)
            unsized = [result for result in made if is_dynamic(result)]
            self._check_sizes([result for result in unsized if not may_vary or span_of(result) is None])
        for index, output in enumerate(proto.output):
            result = results[index] if index < len(results) else None
            missing = Unavailable(f"reads output {index} of '{name}' ({proto.op_type}), which is not supported")
            if output:
                scope.define(output, missing if result is None else result)

    def _results(
        self, proto: onnx.NodeProto, name: str, scope: Scope, inputs: list[ir.Value | None]
    ) -> Sequence[ir.Value | None]:
        """The node's outputs: by the model's function, by our handler, or by ONNX's definition of the operator."""
        function = self._functions.get(proto)
        if function is not None:
            return function.inline(self, proto, name, scope, inputs)
        domain = normal_domain(proto.domain)
        opset = scope.versions[domain]
        handler = handler_for(domain, proto.op_type, opset)
        try:
            if handler is None:
                raise UnsupportedError(f"is not supported (opset {opset})")
            results = self._handled(handler, Node(proto, name, opset, self, scope), inputs)
            if not any(proto.output[len(results) :]):
                return results
        except UnsupportedError as error:
            results = error
        definition = definition_of(proto, scope.versions, inputs)
        if definition is not None:
            return definition.inline(self, proto, name, scope, inputs)
        if isinstance(results, UnsupportedError):
            raise results
        return results

    def _handled(self, handler: OnnxHandler, node: Node, inputs: list[ir.Value | None]) -> Sequence[ir.Value]:
        node.check_inputs(handler, inputs)
        results = handler(node, *inputs)
        node.check_all_read()
        return results if isinstance(results, tuple) else (results,)

    def _check_size(self, value: ir.Value | ValueList | None, name: str, verb: str) -> None:
        """Checks that the size of a value does not depend on data.

        Raises:
            SizedByData: it does.
        """
        if value in self.counts:
            raise SizedByData(f"{verb} '{name}', whose size depends on data", name)

    def weight(self, name: str, array: np.ndarray, is_kept: bool = False) -> ir.Value:
        """A stored tensor: a literal if it is small and need not be kept, else a parameter."""
        if array.size <= MAX_LITERAL.get(array.dtype.kind, 16) and not is_kept:
            return ConstantOp(value=array).operation.result
        unique, count = name, 0
        while not unique or unique in self.parameters:
            count += 1
            unique = f"{name}.{count}"
        self.parameters[unique] = array
        return ParameterOp(name=unique, shape=array.shape, dtype=array.dtype).operation.result

    def _weights(self, graph: onnx.GraphProto, scope: Scope, weights: Iterable[onnx.TensorProto]) -> None:
        if graph.sparse_initializer:
            raise ModelError("stores sparse tensors, which is not supported")
        read = names_read(graph)
        literal = settings_read(graph) if self.keeps_weights else set()
        for tensor in weights:
            if tensor.name in read:
                array = tensor_array(tensor, self.folder)
                is_kept = self.keeps_weights and array.ndim > 0 and is_float(array.dtype) and tensor.name not in literal
                with ir.Location.name(tensor.name or "weight"):
                    scope.define(tensor.name, self.weight(tensor.name, array, is_kept))

    def may_require_contents(self, value: ir.Value) -> bool:
        """Returns whether a compile may be given the contents that determine a value; in ranges, none are given."""
        is_ranged = any(isinstance(dim, Symbolic) for dims in self._dims for dim in dims)
        return not is_ranged and bool(self._needing_contents("", Origins().of_contents([value])).inputs)

    def _needing(self, error: NeedsShapes, proto: onnx.NodeProto, scope: Scope) -> ModelError:
        """Converts the error to NeedsContents if all input shapes are known, as only contents could then help."""
        if not self.is_specialized:
            return error
        if error.value is not None:
            return self._needing_contents(error.reason, Origins().of_contents([error.value]))
        inputs = tensors_of([scope.lookup(item) for item in proto.input if item])
        origins = Origins().of_sizes(inputs)
        return self._needing_contents(error.reason, origins if origins.arguments else origins.of_contents(inputs))

    def _check_sizes(self, results: Sequence[ir.Value]) -> None:
        """Checks that no size of a result depends on the contents of inputs.

        Raises:
            NeedsContents: one does.
        """
        origins = Origins().of_sizes(results) if results else Origins()
        if origins.arguments:  # otherwise the compiler can compute it: it folds larger constants than the importer
            raise self._needing_contents("the size of its output depends on computed values", origins)

    def _needing_contents(self, reason: str, origins: Origins) -> NeedsContents:
        found = [(self._info.inputs[index], self._dims[index]) for index in sorted(origins.arguments)]
        if all(_is_small(info.dtype, dims) for info, dims in found):
            return NeedsContents(reason, [info.name for info, _ in found])
        return NeedsContents(reason)

    def _check_outputs(self, values: Sequence[ir.Value]) -> None:
        if not values:
            raise ModelError("has no outputs")
        for info, value in zip(self._info.outputs, values, strict=True):
            if info.kind and spec_of(value).dtype != info.dtype:
                raise ModelError(f"declares output '{info.name}' as {info.dtype}, but computes {spec_of(value).dtype}")


def _is_small(dtype: np.dtype, dims: PortDims) -> bool:
    limit = MAX_BOUND_FLOATS if is_float(dtype) else MAX_BOUND
    return math.prod(dim for dim in dims if isinstance(dim, int)) <= limit


def _output(scope: Scope, name: str) -> ir.Value:
    try:
        return scope.lookup(name)
    except NodeError:
        raise ModelError(f"declares the output '{name}', which no input, weight or node provides") from None


def _is_read(value: ir.Value | ValueList | Unavailable) -> TypeGuard[ir.Value]:
    return isinstance(value, ir.Value) and next(iter(value.uses), None) is not None
