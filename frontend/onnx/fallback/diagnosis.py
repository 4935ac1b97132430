"""Finds all nodes that prevent a model from being compiled as a whole, in one import that continues after failures.

The outputs of a node that cannot be imported are replaced by unknown values of the types that ONNX infers, so that the
nodes behind it are examined too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import onnx
from mlir import ir
from mlir.dialects import func
from onnx import helper

from ....dialects.core import OpError, spec_of
from ....dialects.registry import load_dialects
from ....dialects.types import element_type
from ....runtime.host.fallback import Fallback
from ....runtime.host.step import HostNode, HostStepError
from ...diagnosis import Diagnosis
from ...errors import ModelError, NeedsContents, NeedsShapes, UnsupportedError
from ...main_signature import tensor_of
from ..importer import Importer
from ..nodes.lists import has_lists
from ..nodes.origins import Origins
from ..nodes.scope import Scope, Unavailable
from ..reading.inferred import inferred_types
from ..reading.model import Model, is_native, opsets, type_text
from ..reading.names import node_name, normal_domain
from ..survey import has_sequences, needed_nodes, reads, shape_of_type, unknown_operators
from .partition import Subgraph, host_model

_ERRORS = (OpError, ArithmeticError, LookupError, ValueError, ModelError)
_HOST = "it runs on the host"
_FUNCTION = "a function of the model that defines the operator would be compiled"
_ADVICE = {
    "operator": f"{_HOST}; {_FUNCTION}",
    "type": _HOST,
    "attribute": _HOST,
    "size": f"{_HOST}; with a known size it would be compiled",
    "error": "correct the model: the node breaks the rules of its operator",
}
"""The advice for a user by kind of finding."""


def diagnose(model: Model, shapes: Mapping[str, Sequence[int]] | None = None) -> Diagnosis:
    """Finds the nodes that have no native code.

    A node that can only be compiled for known shapes, or for known contents of a small input, does not count: it is
    compiled when a call provides these.

    Args:
        model: the model.
        shapes: shapes for some or all inputs, by name; if all of them are known, more can be found.

    Raises:
        ModelError: the model is damaged, or has no such inputs.
        NeedsShapes: the rank of an input is not known.
    """
    context = ir.Context()
    with context, ir.Location.unknown():
        load_dialects(context)
        try:
            return _Examiner(model, shapes or {}).run()
        except ModelError as error:
            raise error.at(model=model.name) from None


class _Examiner(Importer):
    """An import that continues after failures."""

    def __init__(self, model: Model, shapes: Mapping[str, Sequence[int]]) -> None:
        super().__init__(model, shapes, sized=True)
        self._unknown = unknown_operators(model)
        self._types = inferred_types(model, shapes)
        self._top = Scope(versions=opsets(model.proto.opset_import, model.name))
        self._positions: Iterator[int] = iter(())
        self._position = -1
        self._findings: list[Fallback] = []
        self._found: set[int] = set()
        self._unseen: list[str] = []

    def run(self) -> Diagnosis:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Examines every node that the outputs of the graph depend on."""
        graph, inputs = self._model.proto.graph, self._info.inputs
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            float32 = ir.RankedTensorType.get([], ir.F32Type.get())  # placeholder for other types, which nothing reads
            types = [
                tensor_of(info, dims) if info.is_native else float32
                for info, dims in zip(inputs, self._dims, strict=True)
            ]
            main = func.FuncOp("main", (types, []))
        self._block = main.add_entry_block()
        with ir.InsertionPoint(self._block):
            for info, argument in zip(inputs, self._block.arguments, strict=True):
                self._top.define(info.name, argument if info.is_native else Unavailable("is not a tensor of numbers"))
            weights = self._model.initializers
            for tensor in weights:
                if tensor.data_type == onnx.TensorProto.STRING:
                    self._top.define(tensor.name, Unavailable("is not a tensor of numbers"))
                    self._types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            self._weights(graph, self._top, [item for item in weights if item.data_type != onnx.TensorProto.STRING])
            needed = needed_nodes(graph)
            self._positions = iter([index for index, _ in needed])
            self.nodes(needed, self._top)
            if self._findings:
                self._add_sequences(needed)
        return Diagnosis(len(graph.node), tuple(self._findings), tuple(self._unseen))

    def _node(self, proto: onnx.NodeProto, name: str, scope: Scope) -> None:
        if scope is not self._top:
            super()._node(proto, name, scope)
            return
        self._position = next(self._positions)
        found = self._unknown.get(self._position)
        if found is None:
            absent = [item for item in reads(proto) if isinstance(scope.values.get(item), Unavailable)]
            found = self._of_other_types(absent) if absent else self._outcome(proto, name, scope)
            if absent and found is None:
                self._unseen.append(name)
        for output in proto.output:
            if scope.values.get(output) in self.counts:  # the nodes that read it are compiled apart from this one
                scope.values[output] = self._stand_in(output, name)
        if isinstance(found, Fallback):
            self._found.add(self._position)
            self._findings.append(self._described(found, proto, name, scope))
        for output in proto.output:
            if output and output not in scope.values:
                scope.define(output, self._stand_in(output, name))

    def _add_sequences(self, nodes: Sequence[tuple[int, onnx.NodeProto]]) -> None:
        """Adds findings about all nodes on sequences, which are compiled only if the whole model is."""
        for index, proto in nodes:
            values = [self._top.values.get(name) for name in (*proto.input, *proto.output)]
            if index in self._found or not (has_lists(values) or has_sequences(proto)):
                continue
            self._position = index
            found = Fallback("", "", reason="it computes on sequences", kind="type")
            self._findings.append(self._described(found, proto, node_name(proto, index), self._top))

    def _of_other_types(self, names: Sequence[str]) -> Fallback | None:
        """The finding about a node that reads values of non-native types; None if their types are not known."""
        for name in names:
            kind = self._types.get(name)
            if kind is not None and not is_native(kind):
                return Fallback("", "", reason=f"'{name}' is of the type {type_text(kind)}", kind="type")
        return None

    def _outcome(self, proto: onnx.NodeProto, name: str, scope: Scope) -> Fallback | None:
        """Imports a node; returns a finding if it fails and known shapes or contents would not help."""
        try:
            super()._node(proto, name, scope)
        except NeedsShapes as error:
            needed = self._needing(error, proto, scope) if self.is_specialized else error
            return self._finding(needed, name)
        except _ERRORS as error:
            return self._finding(error, name)
        return None

    def _finding(self, error: Exception, name: str) -> Fallback | None:
        if isinstance(error, NeedsShapes) or (isinstance(error, NeedsContents) and error.inputs):
            return None
        reason, kind = str(error), "error"
        if isinstance(error, ModelError):
            inside = error.node and error.node != name
            reason = f"it holds {error.op_type} '{error.node}', which {error.reason}" if inside else error.reason
            kind = "attribute" if isinstance(error, UnsupportedError) else "error"
        return Fallback("", "", reason=reason, kind="size" if isinstance(error, NeedsContents) else kind)

    def _needing_contents(self, reason: str, origins: Origins) -> NeedsContents:
        """Ignores sizes that depend on stand-in values: they are known by the time the node's own part is compiled."""
        count = len(self._info.inputs)
        if any(index >= count for index in origins.arguments):
            return NeedsContents(reason, [info.name for info in self._info.inputs])
        return super()._needing_contents(reason, origins)

    def _described(self, found: Fallback, proto: onnx.NodeProto, name: str, scope: Scope) -> Fallback:
        """Adds the node's identity, and the types and shapes of its inputs, to a finding."""
        read = [item for item in proto.input if item]
        values = [scope.values.get(item) for item in read]
        types = [self._types.get(item) for item in read]
        return replace(
            found,
            node=name,
            op_type=proto.op_type,
            domain=normal_domain(proto.domain),
            opset=scope.versions.get(normal_domain(proto.domain)),
            suggestion=found.suggestion or self._advice(found),
            dtypes=tuple(_dtype(value, kind) for value, kind in zip(values, types, strict=True)),
            shapes=tuple(_shape(value, kind) for value, kind in zip(values, types, strict=True)),
        )

    def _advice(self, found: Fallback) -> str:
        if found.kind != "error":
            node = self._model.proto.graph.node[self._position]
            cut = Subgraph((self._position,), tuple(reads(node)), tuple(filter(None, node.output)))
            try:
                HostNode(host_model(self._model, cut), node.op_type).check()
            except HostStepError:
                return f"there is no implementation for the host either; {_FUNCTION}"
        return _ADVICE[found.kind]

    def _stand_in(self, output: str, name: str) -> ir.Value | Unavailable:
        """An unknown value of the inferred type that replaces an output of a node."""
        kind = self._types.get(output)
        dims = shape_of_type(kind)
        if kind is None or dims is None or not is_native(kind):
            return Unavailable(f"reads an output of '{name}', whose type is not known")
        dynamic = ir.ShapedType.get_dynamic_size()
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
        shape = [dim if isinstance(dim, int) else dynamic for dim in dims]
        return self._block.add_argument(ir.RankedTensorType.get(shape, element_type(dtype)), ir.Location.name(output))


def _dtype(value: ir.Value | Unavailable | None, kind: onnx.TypeProto | None) -> str:
    return spec_of(value).dtype.name if isinstance(value, ir.Value) else type_text(kind)


def _shape(value: ir.Value | Unavailable | None, kind: onnx.TypeProto | None) -> tuple[int | str, ...] | None:
    if not isinstance(value, ir.Value):
        return shape_of_type(kind)
    return tuple(dim if isinstance(dim, int) else "?" for dim in spec_of(value).shape)
