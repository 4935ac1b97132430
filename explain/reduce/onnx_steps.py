"""Reduction steps for an ONNX model, from those that remove most to mere tidying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from . import onnx_graph
from .case import Case
from .onnx_bodies import flattened
from .onnx_graph import Facts, forget_shapes, graphs_in, piece, tidied, uses
from .onnx_sizes import resized, sizes_in
from .onnx_values import facts_from, facts_of
from .search import Edit, Search, minimise

_RADII = (0, 1, 2, 4, 8, 16)
"""Distances from the failing node, in nodes, within which the model is kept: the smallest are tried first."""
_Change = Callable[[onnx.ModelProto], onnx.ModelProto | None]


def reduce_onnx(search: Search) -> None:
    """Reduces the model until a whole round finds nothing."""
    # A violation of ONNX's own rules may be the reason for the failure.
    search.strict = search.ask(lambda: _checked(model_of(search.case)) is not None) or False
    for step in (_fix_shapes, _inline, _constants_to_weights, _near_the_failure):
        step(search)
    while True:
        before = search.accepted
        for step in (_nodes, _bodies, _outputs, _bypass, _inputs, _attributes, _sizes, _weights, _drop_notes):
            step(search)
        if search.accepted == before:
            break
    _simple_names(search)


def model_of(case: Case) -> onnx.ModelProto:
    """The parsed model."""
    return onnx.ModelProto.FromString(case.data)


def _edit(search: Search, what: str, change: _Change) -> Edit:
    """Creates a candidate from a change of the model; invalid results are discarded if the model is valid."""
    base, strict = search.case, search.strict

    def make() -> Case | None:
        model = model_of(base)
        changed = change(model)
        made = None if changed is None else tidied(changed)
        made = None if made is None else _checked(made, strict)
        if made is None:
            return None
        left = {value.name for value in made.graph.input}
        shapes = {name: shape for name, shape in base.shapes.items() if name in left}
        case = replace(base, data=made.SerializeToString(deterministic=True), shapes=shapes)
        return None if case.digest == base.digest else case

    return Edit(what, make)


def _checked(model: onnx.ModelProto, strict: bool = True) -> onnx.ModelProto | None:
    """Infers the types of the outputs; returns None if ONNX finds the model invalid."""
    try:
        kinds = onnx.shape_inference.infer_shapes(model, check_type=strict, strict_mode=strict).graph.output
        del model.graph.output[:]
        model.graph.output.extend(kinds)
        if strict:
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return model


def _facts(search: Search) -> Facts:
    case = search.case
    return facts_from(search.ask(lambda: facts_of(case)))


def _fix_shapes(search: Search) -> None:
    """Writes the given shapes into the model, so that the model alone reproduces the failure."""
    shapes = dict(search.case.shapes)

    def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
        del model.graph.value_info[:]
        for value in model.graph.input:
            if value.name in shapes:
                kind = value.type.tensor_type.elem_type
                value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        return model

    def make() -> Case | None:
        case = _edit(search, "", fixed).make()
        return None if case is None else replace(case, shapes={})

    if shapes:
        search.first([Edit("fix-shapes", make)])


def _inline(search: Search) -> None:
    if model_of(search.case).functions:
        search.first([_edit(search, "inline-functions", inliner.inline_local_functions)])


def _constants_to_weights(search: Search) -> None:
    """Replaces nodes that hold a tensor by weights."""

    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        kept = []
        for node in model.graph.node:
            tensors = [item.t for item in node.attribute if item.name == "value"]
            if node.op_type != "Constant" or len(tensors) != 1:
                kept.append(node)
                continue
            tensor = onnx.TensorProto()
            tensor.CopyFrom(tensors[0])
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
        del model.graph.node[:]
        model.graph.node.extend(kept)
        return model

    search.first([_edit(search, "constants-to-weights", changed)])


def _near_the_failure(search: Search) -> None:
    """Starts from the nodes that the failure names, with ever larger neighbourhoods."""
    model, facts, place = model_of(search.case), _facts(search), search.failure.place
    named = [index for index, node in enumerate(model.graph.node) if _is_named(node, place)]
    if not named:
        return
    choices: list[list[int]] = []
    for radius in _RADII:
        near = onnx_graph.neighbourhood(model, named, radius)
        if len(near) < len(model.graph.node) and near not in choices:
            choices.append(near)
    search.first(
        _edit(search, f"near-{len(kept)}", lambda model, kept=kept: piece(model, kept, facts)) for kept in choices
    )


def _is_named(node: onnx.NodeProto, place: str) -> bool:
    names = [name for name in (node.name, *node.output) if name]
    return any(f'"{name}"' in place or f"'{name}'" in place or name == place for name in names)


def _nodes(search: Search) -> None:
    """Leaves nodes out, beginning with halves of the graph."""
    model = model_of(search.case)
    facts = _facts(search)
    base = replace(search)

    def build(kept: list[int]) -> Callable[[], Case | None]:
        return _edit(base, "", lambda model: piece(model, kept, facts)).make

    if len(model.graph.node) > 1:
        minimise(search, "nodes", range(len(model.graph.node)), build)


def _bodies(search: Search) -> None:
    """Replaces a control-flow node by its body."""
    while True:
        nodes = model_of(search.case).graph.node
        choices = [(index, body) for index, node in enumerate(nodes) for body in range(len(graphs_in(node)))]
        edits = [
            _edit(
                search,
                f"flatten-{nodes[index].op_type}",
                lambda model, index=index, body=body: flattened(model, index, body),
            )
            for index, body in choices
        ]
        if search.first(edits) is None:
            return


def _outputs(search: Search) -> None:
    """Drops outputs, and the nodes that only they need."""
    base = replace(search)
    names = [value.name for value in model_of(search.case).graph.output]

    def build(kept: list[str]) -> Callable[[], Case | None]:
        def changed(model: onnx.ModelProto) -> onnx.ModelProto | None:
            left = [value for value in model.graph.output if value.name in kept]
            del model.graph.output[:]
            model.graph.output.extend(left)
            return model

        return _edit(base, "", changed).make

    if len(names) > 1:
        minimise(search, "outputs", names, build)


def _bypass(search: Search) -> None:
    """Replaces a node's output by one of its inputs of the same type."""
    while True:
        facts = _facts(search)
        nodes = model_of(search.case).graph.node
        edits = [
            _edit(search, f"bypass-{node.op_type}", lambda model, index=index, name=name: _bypassed(model, index, name))
            for index, node in enumerate(nodes)
            for name in node.input
            if len(node.output) == 1 and _are_alike(facts, name, node.output[0])
        ]
        if search.first(edits) is None:
            return


def _are_alike(facts: Facts, left: str, right: str) -> bool:
    return left in facts.types and right in facts.types and facts.types[left] == facts.types[right]


def _bypassed(model: onnx.ModelProto, index: int, name: str) -> onnx.ModelProto | None:
    node = model.graph.node[index]
    if node.output[0] in {value.name for value in model.graph.output}:
        return None
    onnx_graph.renamed(model, {node.output[0]: name}, list(model.graph.node)[index + 1 :])
    del model.graph.node[index]
    return model


def _inputs(search: Search) -> None:
    """Replaces weights by inputs, which hold no data."""
    while True:
        model = model_of(search.case)
        stored = {value.name for value in model.graph.input}
        names = [tensor.name for tensor in model.graph.initializer if tensor.name not in stored]
        if search.first(_edit(search, "weight-to-input", _to_input(name)) for name in names) is None:
            return


def _to_input(name: str) -> _Change:
    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        tensors = list(model.graph.initializer)
        chosen = next(tensor for tensor in tensors if tensor.name == name)
        model.graph.input.append(helper.make_tensor_value_info(name, chosen.data_type, chosen.dims))
        del model.graph.initializer[:]
        model.graph.initializer.extend(tensor for tensor in tensors if tensor.name != name)
        return model

    return changed


def _attributes(search: Search) -> None:
    """Drops attributes, and optional inputs and outputs."""
    while True:
        edits = list(_attribute_edits(search))
        if search.first(edits) is None:
            return


def _attribute_edits(search: Search) -> Iterator[Edit]:
    for index, node in enumerate(model_of(search.case).graph.node):
        for attribute in node.attribute:
            yield _edit(search, f"drop-{attribute.name}", _without_attribute(index, attribute.name))
        if len(node.input) > 1:
            yield _edit(search, f"fewer-inputs-{node.op_type}", _fewer(index, "input"))
        if len(node.output) > 1:
            yield _edit(search, f"fewer-outputs-{node.op_type}", _fewer(index, "output"))


def _without_attribute(index: int, name: str) -> _Change:
    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        node = model.graph.node[index]
        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        forget_shapes(model)
        return model

    return changed


def _fewer(index: int, what: str) -> _Change:
    def changed(model: onnx.ModelProto) -> onnx.ModelProto | None:
        names = getattr(model.graph.node[index], what)
        read = set().union(*(uses(node) for node in model.graph.node), {value.name for value in model.graph.output})
        if what == "output" and names[-1] in read:
            return None
        del names[-1]
        forget_shapes(model)
        return model

    return changed


def _sizes(search: Search) -> None:
    """Reduces dimensions, all of the same size together: to 1, to 2, to half."""
    while True:
        sizes = sizes_in(model_of(search.case))
        edits = [
            _edit(search, f"size-{size}-to-{smaller}", lambda model, pair=(size, smaller): resized(model, *pair))
            for size in sizes
            for smaller in sorted({1, 2, size // 2})
            if 0 < smaller < size
        ]
        if search.first(edits) is None:
            return


def _weights(search: Search) -> None:
    """Fills weights with zeros, or with ones if zeros hide the failure."""
    while True:
        edits = []
        for tensor in model_of(search.case).graph.initializer:
            if tensor.data_type == onnx.TensorProto.STRING or onnx_graph.elements(tensor.dims) < 2:
                continue
            array = numpy_helper.to_array(tensor)
            if len(np.unique(array.astype(np.float64))) > 1 and array.dtype.kind not in "iub":
                edits += [_edit(search, f"weight-of-{number}s", _filled(tensor.name, number)) for number in (0, 1)]
        if search.first(edits) is None:
            return


def _filled(name: str, number: int) -> _Change:
    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        chosen = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        chosen.CopyFrom(numpy_helper.from_array(np.full_like(numpy_helper.to_array(chosen), number), name))
        return model

    return changed


def _drop_notes(search: Search) -> None:
    """Drops documentation and unused domains."""

    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        used = {node.domain for node in onnx_graph.all_nodes(model.graph)}
        used |= {node.domain for function in model.functions for node in function.node} | {"", "ai.onnx"}
        kept = [item for item in model.opset_import if item.domain in used]
        del model.opset_import[:]
        model.opset_import.extend(kept)
        for node in onnx_graph.all_nodes(model.graph):
            node.doc_string = ""
            del node.metadata_props[:]
        return model

    search.first([_edit(search, "drop-notes", changed)])


def _simple_names(search: Search) -> None:
    """Renames values and nodes to short names."""

    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        graph = model.graph
        names: dict[str, str] = {}
        for place, value in enumerate(graph.input):
            names.setdefault(value.name, f"x{place}")
        for place, tensor in enumerate(graph.initializer):
            names.setdefault(tensor.name, f"w{place}")
        for place, value in enumerate(graph.output):
            names.setdefault(value.name, f"y{place}")
        inner = (name for node in onnx_graph.all_nodes(graph) for name in node.output if name)
        for place, name in enumerate(inner):
            names.setdefault(name, f"v{place}")
        onnx_graph.renamed(model, names)
        for item in (*graph.input, *graph.output, *graph.initializer):
            item.name = names[item.name]
        for place, node in enumerate(onnx_graph.all_nodes(graph)):
            node.name = f"n{place}"
        del graph.value_info[:]
        graph.name = "reduced"
        return model

    search.first([_edit(search, "simple-names", changed)])
