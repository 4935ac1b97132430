"""Products over dimensions that vary: shapes with and without unit dimensions, after norms, and in decoders."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.passes.ir.functions import kernels_in
from stepwell.passes.ir.rewriting import walk
from stepwell.passes.ranges.extents import regroup, whole

_NODE = helper.make_node


@dataclass(frozen=True)
class Case:
    """A product `before(x) * w`.

    Attributes:
        x: shape of the left operand.
        w: shape of the right operand.
        dims: ranges of the dimensions.
        before: op before the product: "", "l2", "rms", "softmax" or "max".
        is_weight: whether the right operand is a constant.
        is_transposed: whether it is transposed along its last two dimensions.
    """

    x: tuple[int | str, ...]
    w: tuple[int | str, ...]
    dims: tuple[tuple[str, tuple[int, int]], ...]
    before: str = ""
    is_weight: bool = False
    is_transposed: bool = False


_BEFORE = {
    "": lambda: ([_NODE("Identity", ["x"], ["p"])], {}),
    "l2": lambda: ([_NODE("ReduceL2", ["x"], ["n"], axes=[-1]), _NODE("Div", ["x", "n"], ["p"])], {}),
    "rms": lambda: (
        [
            _NODE("Mul", ["x", "x"], ["s"]),
            _NODE("ReduceMean", ["s"], ["m"], axes=[-1]),
            _NODE("Sqrt", ["m"], ["r"]),
            _NODE("Div", ["x", "r"], ["p"]),
        ],
        {},
    ),
    "softmax": lambda: ([_NODE("Softmax", ["x"], ["p"], axis=-1)], {}),
    "max": lambda: ([_NODE("ReduceMax", ["x"], ["n"], axes=[-2]), _NODE("Sub", ["x", "n"], ["p"])], {}),
}

_EINSUMS = {
    "bhts,bshd->bthd": {"p": ("b", 3, "t", "t"), "v": ("b", "t", 3, 32)},
    "bhts,bhsd->bhtd": {"p": ("b", 3, "t", "t"), "v": ("b", 3, "t", 32)},
}

_N, _B = ("n", (1, 256)), ("b", (1, 4))
_CASES = [
    Case((4, 6, 1, 64), (4, 6, 64, "n"), (_N,)),
    Case(("b", 6, 1, 64), ("b", 6, 64, 32), (_B,)),
    Case(("b", 6, 1, 64), ("b", 6, "n", 64), (_B, _N), is_transposed=True),
    Case((4, "b", 1, 3), (4, "b", 64, 3), (("b", (1, 64)),), "rms", is_transposed=True),
    Case((1, "b", 1, 3), (1, "b", "n", 3), (("b", (1, 33)), ("n", (2, 3))), is_transposed=True),
    Case(("b", 5, 64), (64, 32), (_B,), "l2", is_weight=True),
    Case(("b", 64), (64, 32), (("b", (1, 33)),), "l2", is_weight=True),
    Case(("b", 1, 64), (64, 1), (_B,), "rms", is_weight=True),
    Case(("b", "n", 16), (16, 31), (_B, ("n", (1, 17))), "max", is_weight=True),
    Case((2, "n", "k"), (2, "k", 8), (("n", (1, 17)), ("k", (1, 65))), "softmax"),
    Case((1, "k"), ("k", 1), (("k", (1, 100)),), "l2"),
    Case((3, 1, "k"), (3, "k", "n"), (("k", (2, 16)), ("n", (1, 8))), "rms"),
    Case(("n", 1), (1, 200), (("n", (1, 16)),), is_weight=True),
]


def _model(
    nodes: list, inputs: Mapping[str, Sequence[int | str]], outputs: list[str], weights: dict
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _product(case: Case) -> tuple[onnx.ModelProto, Mapping[str, Sequence[int | str]]]:
    nodes, weights = _BEFORE[case.before]()
    inputs: dict[str, Sequence[int | str]] = {"x": case.x}
    if case.is_weight:
        shape = [size for size in case.w if isinstance(size, int)]
        weights = {**weights, "w": np.random.default_rng(1).standard_normal(shape, np.float32)}
    else:
        inputs["w"] = case.w
    right = "w"
    if case.is_transposed:
        order = [*range(len(case.w) - 2), len(case.w) - 1, len(case.w) - 2]
        nodes, right = [*nodes, _NODE("Transpose", ["w"], ["t"], perm=order)], "t"
    return _model([*nodes, _NODE("MatMul", ["p", right], ["y"])], inputs, ["y"], weights), inputs


def _check(model: onnx.ModelProto, inputs: Mapping[str, Sequence[int | str]], dims: dict[str, tuple[int, int]]) -> None:
    """Compares one program for the ranges with ONNX Runtime, at all corners and at some sizes in between."""
    options = stepwell.Options(dims=dims, cache=False, fallback="error")
    executable = stepwell.compile(model, threads=1, options=options)
    assert not executable.unranged
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(2)
    corners = list(itertools.product(*dims.values()))
    between = [tuple(int(rng.integers(low, high + 1)) for low, high in dims.values()) for _ in range(3)]
    for chosen in (*corners[::-1], *between, corners[0]):
        sizes = dict(zip(dims, chosen, strict=True))
        arrays = {
            name: rng.standard_normal([sizes[dim] if isinstance(dim, str) else dim for dim in shape], np.float32)
            for name, shape in inputs.items()
        }
        results = executable(*arrays.values())
        found = results if isinstance(results, tuple | list) else [results]
        for got, wanted in zip(found, session.run(None, arrays), strict=True):
            np.testing.assert_allclose(got, np.asarray(wanted), rtol=2e-4, atol=2e-4, err_msg=str(sizes))


@pytest.mark.few(6)
@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.before}{case.x}{case.w}".replace("'", ""))
def test_a_product_at_any_size(case: Case):
    model, inputs = _product(case)
    _check(model, inputs, dict(case.dims))


@pytest.mark.parametrize("equation", ["bhts,bshd->bthd", "bhts,bhsd->bhtd"])
def test_sums_end_where_the_data_does(equation: str):
    """The summed dimension varies, in products outside attention."""
    ends: list[bool] = []

    def reached(phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        if phase != "memref":
            return
        for kernel in kernels_in(module.operation):
            if 'class = "contraction"' in str(kernel.attributes["stepwell.kernel"]):
                sums = [op for op in walk(kernel) if op.name == "scf.for" and len(op.results)]
                ends.append(bool(sums) and all(_is_made_by(op.operands[1], "arith.minsi") for op in sums))

    model = _model([_NODE("Einsum", ["p", "v"], ["y"], equation=equation)], inputs := _EINSUMS[equation], ["y"], {})
    options = stepwell.Options(dims={"b": [2], "t": [64]}, cache=False, fallback="error", reached=reached)
    executable = stepwell.compile(model, threads=1, options=options)
    assert ends
    assert all(ends)
    rng = np.random.default_rng(4)
    for sizes in ({"b": 2, "t": 64}, {"b": 1, "t": 1}, {"b": 2, "t": 7}, {"b": 1, "t": 33}):
        p, v = (
            rng.standard_normal([sizes.get(str(dim), dim) for dim in shape]).astype(np.float32)
            for shape in inputs.values()
        )
        np.testing.assert_allclose(executable(p, v), np.einsum(equation, p, v), rtol=1e-4, atol=1e-4)


def _is_made_by(value: ir.Value, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize("batch", [2, "b"], ids=str)
def test_a_step_of_a_decoder(batch: int | str, heads: int):
    nodes = [
        _NODE("Concat", ["past_key", "k"], ["key"], axis=2),
        _NODE("Concat", ["past_value", "v"], ["value"], axis=2),
        _NODE("Transpose", ["key"], ["turned"], perm=[0, 1, 3, 2]),
        _NODE("MatMul", ["q", "turned"], ["scores"]),
        _NODE("Softmax", ["scores"], ["shares"], axis=-1),
        _NODE("MatMul", ["shares", "value"], ["y"]),
    ]
    new, past = [batch, heads, 1, 16], [batch, heads, "past", 16]
    inputs = {"q": new, "k": new, "v": new, "past_key": past, "past_value": past}
    dims = {"past": (1, 256)} | ({"b": (1, 4)} if isinstance(batch, str) else {})
    _check(_model(nodes, inputs, ["y", "key", "value"], {}), inputs, dims)


@pytest.mark.few(5)
@pytest.mark.parametrize("mask", ["", "positions", "number"])
@pytest.mark.parametrize("keys", [(1, 8), (2, 12), (2, 16), (1, 32)], ids=str)
def test_an_attention_to_few_keys(keys: tuple[int, int], mask: str):
    """Attention to so few keys that the loop over them is unrolled, in some cases with relative position scores."""
    nodes, inputs = [_NODE("MatMul", ["q", "kt"], ["plain"])], {"q": ["b", 2, 7, 16], "k": ["b", 2, "n", 16]}
    weights = {"number": np.full((2, 1, 1), 0.5, np.float32)} if mask == "number" else {}
    if mask == "positions":
        inputs["r"] = [2, "n", 16]
        nodes += [_NODE("Transpose", ["r"], ["rt"], perm=[0, 2, 1]), _NODE("MatMul", ["q", "rt"], ["positions"])]
    nodes = [_NODE("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), *nodes]
    nodes.append(_NODE("Add", ["plain", mask], ["scores"]) if mask else _NODE("Identity", ["plain"], ["scores"]))
    nodes += [_NODE("Softmax", ["scores"], ["shares"], axis=-1), _NODE("MatMul", ["shares", "k"], ["y"])]
    _check(_model(nodes, inputs, ["y"], weights), inputs, {"b": (1, 4), "n": keys})


def test_an_attention_with_the_same_mask_everywhere():
    nodes = [
        _NODE("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        _NODE("MatMul", ["q", "turned"], ["plain"]),
        _NODE("Add", ["plain", "mask"], ["scores"]),
        _NODE("Softmax", ["scores"], ["shares"], axis=-1),
        _NODE("MatMul", ["shares", "k"], ["y"]),
    ]
    inputs = {"q": ["b", 1, 49, 16], "k": ["b", 1, 49, 16]}
    weights = {"mask": np.full((1, 1, 1), -2, np.float32)}
    _check(_model(nodes, inputs, ["y"], weights), inputs, {"b": (1, 8)})


def test_scores_of_relative_positions_that_are_shifted():
    """A column before the scores, and the first row dropped, as in Transformer-XL: [q, k + 1] becomes [k + 1, q]."""
    nodes = [
        _NODE("Pad", ["x", "pads"], ["padded"]),
        _NODE("Reshape", ["padded", "turned"], ["rows"]),
        _NODE("Slice", ["rows", "one", "end", "zero"], ["rest"]),
        _NODE("Reshape", ["rest", "back"], ["shifted"]),
        _NODE("Softmax", ["shifted"], ["y"], axis=1),
    ]
    weights = {
        "pads": np.array([0, 1, 0, 0, 0, 0]),
        "turned": np.array([33, 32, -1]),
        "back": np.array([32, 32, -1]),
        "one": np.array([1]),
        "end": np.array([1 << 40]),
        "zero": np.array([0]),
    }
    inputs = {"x": [32, 32, "b"]}
    _check(_model(nodes, inputs, ["y"], weights), inputs, {"b": (1, 4)})


def test_dimensions_that_share_no_divisor_are_not_regrouped():
    def divided(dim, count):
        return dim // count if dim % count == 0 else None

    assert regroup([whole(3), whole(4), whole(5)], [5, 12], divided) is None
    assert regroup([whole(32), whole(33)], [33, 32], divided) is None
    assert regroup([whole(4), whole(6)], [8, 3], divided) == [whole(8), whole(3)]


def _random(rng: random.Random) -> tuple[Case, dict[str, tuple[int, int]]]:
    dims: dict[str, tuple[int, int]] = {}

    def dim(name: str, sizes: Sequence[int], share: float) -> int | str:
        if rng.random() >= share:
            return rng.choice(sizes)
        high = rng.choice([2, 3, 8, 17, 33, 64, 256])
        dims[name] = rng.choice([1, 1, high // 2]), high
        return name

    batch = [dim(name, (1, 2, 4, 6), 0.35) for name in "abc"[: rng.choice([0, 1, 1, 2])]]
    is_weight = rng.random() < 0.4
    share = 0.0 if is_weight else 0.3
    rows, depth, columns = (
        dim("m", (1, 1, 5, 17), 0.45),
        dim("k", (1, 3, 16, 64), share),
        dim("n", (1, 2, 8, 31), share),
    )
    if not dims:
        rows, dims["m"] = "m", (1, 9)
    is_transposed = not is_weight and rng.random() < 0.5
    last = (columns, depth) if is_transposed else (depth, columns)
    right = last if is_weight else (*batch, *last)
    ranges = tuple((name, sizes) for name, sizes in dims.items())
    return Case((*batch, rows, depth), right, ranges, rng.choice(list(_BEFORE)), is_weight, is_transposed), dims


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_random_product_at_any_size(seed: int):
    case, dims = _random(random.Random(seed))
    model, inputs = _product(case)
    _check(model, inputs, dims)
