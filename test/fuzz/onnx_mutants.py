"""Broken ONNX models, such as damaged, careless or hostile files may hold, made from valid models.

The models are ONNX's own test cases, one for every operator and form of it. A mutant is identified by a number: the
same number gives the same bytes.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NUMBERS = (0, 1, -1, 2, 3, 7, 64, -2, 1 << 20, 1 << 31, 1 << 40, -(1 << 31), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 0.5, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
WORDS = ("", "x", "linear", "SAME_UPPER", "VALID", "constant", "é\n%s{}", "a" * 300, "../../x")
_NUMERIC = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)
"""Element types that numpy computes with."""

PLACES = ("/etc/hostname", "../outside", "", "weights.data", "a/../../b", "." * 300)


def mutant(number: int) -> bytes:
    """Returns the mutant with this number."""
    rng = random.Random(number)
    seeds = _seeds()
    model = onnx.ModelProto()
    model.CopyFrom(seeds[rng.randrange(len(seeds))])
    if rng.random() < 0.5:
        _bind_inputs(rng, model)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(_CHANGES)(rng, model)
    data = bytearray(model.SerializeToString())
    if rng.random() < 0.1:
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.02:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


@functools.cache
def _seeds() -> Sequence[onnx.ModelProto]:
    """Returns ONNX's own cases; their input arrays become the defaults that `_bind_inputs` stores."""
    with np.errstate(all="ignore"):
        from onnx.backend.test.loader import load_model_tests

        cases = load_model_tests(kind="node")
    return [case.model for case in cases if case.model is not None and case.model.ByteSize() < 20_000]


def _bind_inputs(rng: random.Random, model: onnx.ModelProto) -> None:
    """Turns some inputs into constants, so that the compiler folds them."""
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [dim.dim_value for dim in tensor.shape.dim]
        if rng.random() < 0.5 or tensor.elem_type not in _NUMERIC or np.prod(dims, dtype=float) > 10_000:
            continue
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        array = np.random.default_rng(rng.randrange(1000)).integers(-2, 5, dims).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(array, value.name))


def _node(rng: random.Random, model: onnx.ModelProto) -> onnx.NodeProto:
    nodes = list(model.graph.node) or [model.graph.node.add(op_type="Identity")]
    return rng.choice(nodes)


def _change_attribute(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if not node.attribute:
        node.attribute.append(helper.make_attribute(rng.choice(("axis", "axes", "to", "mode")), rng.choice(NUMBERS)))
        return
    attribute = rng.choice(list(node.attribute))
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = rng.choice(WORDS).encode()
    elif attribute.type == onnx.AttributeProto.INTS:
        _change_list(rng, attribute.ints, NUMBERS)
    elif attribute.type == onnx.AttributeProto.FLOATS:
        _change_list(rng, attribute.floats, FLOATS)
    elif attribute.type == onnx.AttributeProto.TENSOR:
        _change_tensor(rng, attribute.t)
    else:
        attribute.type = rng.choice(range(14))  # type: ignore[assignment]


def _change_list(rng: random.Random, items: list, values: Sequence) -> None:
    kind = rng.randrange(3)
    if kind == 0 or not items:
        items.append(rng.choice(values))
    elif kind == 1:
        items[rng.randrange(len(items))] = rng.choice(values)
    else:
        del items[rng.randrange(len(items))]


def _drop_attribute(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def _retype_attribute(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if node.attribute:
        old = rng.choice(list(node.attribute))
        value = rng.choice((rng.choice(NUMBERS), rng.choice(FLOATS), rng.choice(WORDS), [1, -1], [0.5]))
        old.CopyFrom(helper.make_attribute(old.name, value))


def _change_tensor(rng: random.Random, tensor: TensorProto) -> None:
    kind = rng.randrange(6)
    if kind == 0:
        _change_list(rng, tensor.dims, NUMBERS)
    elif kind == 1:
        tensor.data_type = rng.choice(range(26))  # type: ignore[assignment]
    elif kind == 2 and tensor.raw_data:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data))]
    elif kind == 3 and tensor.raw_data:
        tensor.raw_data = bytes(rng.randrange(256) for _ in range(min(len(tensor.raw_data), 4096)))
    elif kind == 4:
        del tensor.external_data[:]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", rng.choice(PLACES)), ("offset", str(rng.choice(NUMBERS)))):
            tensor.external_data.add(key=key, value=value)
    else:
        tensor.ClearField(rng.choice(("raw_data", "float_data", "int64_data", "int32_data", "data_type", "name")))


def _change_weight(rng: random.Random, model: onnx.ModelProto) -> None:
    if model.graph.initializer:
        _change_tensor(rng, rng.choice(list(model.graph.initializer)))


def _change_value(rng: random.Random, model: onnx.ModelProto) -> None:
    """Changes the shape or type of an input or output."""
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    value = rng.choice(values)
    tensor = value.type.tensor_type
    kind = rng.randrange(5)
    if kind == 0:
        tensor.elem_type = rng.choice(range(26))  # type: ignore[assignment]
    elif kind == 1:
        tensor.ClearField("shape")
    elif kind == 2 or not tensor.shape.dim:
        tensor.shape.dim.add(dim_value=rng.choice(NUMBERS))
    elif kind == 3:
        del tensor.shape.dim[rng.randrange(len(tensor.shape.dim))]
    else:
        dim = rng.choice(list(tensor.shape.dim))
        if rng.random() < 0.5:
            dim.dim_param = rng.choice(("n", "m", "", "-1", "n + 1"))
        else:
            dim.dim_value = rng.choice(NUMBERS)


def _names(model: onnx.ModelProto) -> list[str]:
    names = [value.name for value in (*model.graph.input, *model.graph.initializer)]
    return [*names, *(name for node in model.graph.node for name in node.output), "", "nowhere"]


def _rewire(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    names = node.input if rng.random() < 0.7 else node.output
    kind = rng.randrange(3)
    if kind == 0 or not names:
        names.append(rng.choice(_names(model)))
    elif kind == 1:
        names[rng.randrange(len(names))] = rng.choice(_names(model))
    else:
        del names[rng.randrange(len(names))]


def _change_operator(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    seeds = _seeds()
    other = rng.choice(seeds[rng.randrange(len(seeds))].graph.node)
    node.op_type, node.domain = other.op_type, rng.choice((other.domain, other.domain, "com.microsoft", "nowhere"))
    if rng.random() < 0.5:
        del node.attribute[:]
        node.attribute.extend(other.attribute)


def _append_node(rng: random.Random, model: onnx.ModelProto) -> None:
    """Appends a node that reads existing values and whose output becomes an output of the model."""
    seeds = _seeds()
    other = onnx.NodeProto()
    other.CopyFrom(rng.choice(seeds[rng.randrange(len(seeds))].graph.node))
    names = _names(model)
    for index in range(len(other.input)):
        other.input[index] = rng.choice(names)
    for index in range(len(other.output)):
        other.output[index] = f"more_{len(model.graph.node)}_{index}"
    model.graph.node.append(other)
    if other.output and rng.random() < 0.8:
        model.graph.output.append(helper.make_tensor_value_info(other.output[0], rng.choice((1, 1, 7, 9)), None))


def _move_node(rng: random.Random, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    if rng.random() < 0.5 and node in model.graph.node:
        model.graph.node.remove(node)
    if rng.random() < 0.7:
        model.graph.node.insert(rng.randrange(len(model.graph.node) + 1), kept)


def _change_opset(rng: random.Random, model: onnx.ModelProto) -> None:
    if model.opset_import:
        rng.choice(list(model.opset_import)).version = rng.choice((0, 1, 5, 6, 7, 11, 13, 17, 23, 28, 29, *NUMBERS))


def _nest(rng: random.Random, model: onnx.ModelProto) -> None:
    """Makes the whole graph a branch of a conditional, many levels deep."""
    outputs = [output.name for output in model.graph.output]
    for depth in range(rng.choice((1, 3, 30, 90))):
        if model.ByteSize() > 100_000:
            return
        inner = onnx.GraphProto()
        inner.CopyFrom(model.graph)
        del inner.input[:]
        condition = helper.make_tensor(f"c{depth}", TensorProto.BOOL, [], [rng.random() < 0.5])
        names = [f"{name}_{depth}" for name in outputs]
        choice = helper.make_node("If", [condition.name], names, then_branch=inner, else_branch=inner)
        results = [
            helper.make_tensor_value_info(name, output.type.tensor_type.elem_type, None)
            for name, output in zip(names, model.graph.output, strict=True)
        ]
        model.graph.CopyFrom(helper.make_graph([choice], "g", list(model.graph.input), results, [condition]))


def _recurse(rng: random.Random, model: onnx.ModelProto) -> None:
    """Adds functions that call each other in a cycle, or each the next one twice."""
    count, node = rng.choice((1, 2, 30)), _node(rng, model)
    for index in range(count):
        after = (index + 1) % count if rng.random() < 0.5 else index + 1
        body = [helper.make_node(f"F{after}", ["a"], [f"b{step}"], domain="d") for step in range(2)]
        body.append(helper.make_node("Add", ["b0", "b1"], ["y"]))
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
        model.functions.append(helper.make_function("d", f"F{index}", ["a"], ["y"], body, imports))
    model.opset_import.append(helper.make_opsetid("d", 1))
    node.op_type, node.domain = "F0", "d"


def _grow(rng: random.Random, model: onnx.ModelProto) -> None:
    """Adds a few bytes that request a large tensor."""
    size = rng.choice((1 << 20, 1 << 30, 1 << 34, 1 << 50))
    dims = numpy_helper.from_array(np.array([size, rng.choice((1, 8))]), "large_dims")
    kind = rng.choice(("ConstantOfShape", "Expand", "Tile", "Range", "Pad"))
    model.graph.initializer.append(dims)
    one = numpy_helper.from_array(np.ones((1, 1), np.float32), "one")
    zero, step = (numpy_helper.from_array(np.array(value, np.int64), f"at{value}") for value in (0, 1))
    last = numpy_helper.from_array(np.array(size, np.int64), "last")
    pads = numpy_helper.from_array(np.array([0, 0, size, 1]), "large_pads")
    model.graph.initializer.extend((one, zero, step, last, pads))
    inputs = {
        "ConstantOfShape": ["large_dims"],
        "Expand": ["one", "large_dims"],
        "Tile": ["one", "large_dims"],
        "Range": ["at0", "last", "at1"],
        "Pad": ["one", "large_pads"],
    }[kind]
    model.graph.node.append(helper.make_node(kind, inputs, ["large"]))
    if rng.random() < 0.5:
        model.graph.node.append(helper.make_node("ReduceSum", ["large"], ["small"]))
    name = model.graph.node[-1].output[0]
    model.graph.output.append(helper.make_tensor_value_info(name, 7 if kind == "Range" else 1, None))


_CHANGES: tuple[Callable[[random.Random, onnx.ModelProto], None], ...] = (
    _change_attribute,
    _change_attribute,
    _change_attribute,
    _drop_attribute,
    _retype_attribute,
    _change_weight,
    _change_weight,
    _change_value,
    _change_value,
    _rewire,
    _rewire,
    _change_operator,
    _append_node,
    _append_node,
    _append_node,
    _move_node,
    _change_opset,
    _nest,
    _recurse,
    _grow,
)
