"""Models that run in steps, as sizes in them depend on data: each part is compiled for ranges of these sizes."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

_NODE = helper.make_node
_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT64


def _model(nodes: list, inputs: dict[str, tuple[int, list]], outputs: list[str], **weights: np.ndarray):
    graph = helper.make_graph(
        nodes,
        "steps",
        [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def chosen_rows() -> onnx.ModelProto:
    """Rows whose maximum is great, and a layer and a softmax of them."""
    nodes = [
        _NODE("ReduceMax", ["x", "last"], ["s"], keepdims=0),
        _NODE("Greater", ["s", "bound"], ["is_great"]),
        _NODE("NonZero", ["is_great"], ["places"]),
        _NODE("Squeeze", ["places", "first"], ["rows"]),
        _NODE("Gather", ["x", "rows"], ["a"]),
        _NODE("MatMul", ["a", "w"], ["b"]),
        _NODE("Softmax", ["b"], ["y"], axis=-1),
        _NODE("ReduceSum", ["y", "first"], ["total"], keepdims=0),
    ]
    weights = {"last": np.array([1]), "first": np.array([0]), "bound": np.array(1.5, np.float32), "w": _floats(8, 16)}
    return _model(nodes, {"x": (_FLOAT, ["n", 8])}, ["y", "total", "places"], **weights)


def detections() -> onnx.ModelProto:
    """Boxes and scores of a detector, and what exporters put behind the suppression."""
    nodes = [
        _NODE("Sigmoid", ["x"], ["a"]),
        _NODE("Split", ["a", "parts"], ["boxes", "by_box"], axis=2),
        _NODE("Transpose", ["by_box"], ["scores"], perm=[0, 2, 1]),
        _NODE("NonMaxSuppression", ["boxes", "scores", "most", "share", "least"], ["found"]),
        _NODE("GatherND", ["scores", "found"], ["score"]),
        _NODE("Gather", ["found", "column"], ["numbers"], axis=1),
        _NODE("Gather", ["boxes", "numbers"], ["b"], axis=1),
        _NODE("Squeeze", ["b", "zero"], ["c"]),
        _NODE("Mul", ["c", "score_column"], ["y"]),
        _NODE("Unsqueeze", ["score", "one"], ["score_column"]),
        _NODE("Shape", ["found"], ["shape"]),
        _NODE("Gather", ["shape", "first"], ["count"]),
    ]
    nodes[-4], nodes[-3] = nodes[-3], nodes[-4]
    weights = {
        "parts": np.array([4, 3]),
        "most": np.array([20]),
        "share": np.array([0.3], np.float32),
        "least": np.array([0.5], np.float32),
        "column": np.array(2),
        "zero": np.array([0]),
        "one": np.array([1]),
        "first": np.array(0),
    }
    return _model(nodes, {"x": (_FLOAT, [1, "n", 7])}, ["y", "count", "found"], **weights)


def embeddings() -> onnx.ModelProto:
    """One layer for each different number, whose results return to the places of the numbers."""
    nodes = [
        _NODE("Unique", ["x"], ["kinds", "", "inverse", "counts"]),
        _NODE("Gather", ["table", "kinds"], ["a"]),
        _NODE("MatMul", ["a", "w"], ["b"]),
        _NODE("Gather", ["b", "inverse"], ["y"]),
        _NODE("Cast", ["counts"], ["times"], to=_FLOAT),
    ]
    return _model(nodes, {"x": (_INT, ["n"])}, ["y", "times"], table=_floats(50, 8), w=_floats(8, 16))


def kept_rows() -> onnx.ModelProto:
    """Rows with a positive mean, in halves whose lengths depend on their number, and a second choice among them."""
    nodes = [
        _NODE("ReduceMean", ["x", "last"], ["s"], keepdims=0),
        _NODE("Greater", ["s", "bound"], ["is_great"]),
        _NODE("Compress", ["x", "is_great"], ["a"], axis=0),
        _NODE("MatMul", ["a", "w"], ["b"]),
        _NODE("Softmax", ["b"], ["c"], axis=0),
        _NODE("ReduceMax", ["b", "last"], ["t"], keepdims=0),
        _NODE("Greater", ["t", "bound"], ["is_greater"]),
        _NODE("Compress", ["c", "is_greater"], ["d"], axis=0),
        _NODE("Concat", ["d", "x"], ["e"], axis=0),
        _NODE("ReduceSum", ["e", "first"], ["y"]),
    ]
    weights = {"last": np.array([1]), "first": np.array([0]), "bound": np.array(0, np.float32), "w": _floats(8, 8)}
    return _model(nodes, {"x": (_FLOAT, ["n", 8])}, ["y", "c"], **weights)


MODELS = (chosen_rows, detections, embeddings, kept_rows)
SIZES = (5, 17, 40, 1, 60, 33, 64, 2)


def _feed(model: onnx.ModelProto, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    kind = model.graph.input[0].type.tensor_type
    shape = [n if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
    is_int = kind.elem_type == _INT
    return {"x": rng.integers(0, 50, shape) if is_int else rng.standard_normal(shape, np.float32)}


def _check(executable: stepwell.Executable, model: onnx.ModelProto, sizes: tuple[int, ...] = SIZES) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for n in sizes:
        feed = _feed(model, n, rng)
        for mine, theirs in zip(executable(**feed), session.run(None, feed), strict=True):
            np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-4, atol=1e-5, strict=True)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_sizes_of_calls_lead_to_ranges_in_each_part(make, tmp_path):
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False, fallback="error"))
        _check(executable, model, (5, 9, 64, 64))
        count = len(executable.programs)
        _check(executable, model)
    assert len(executable.programs) == count  # nothing is compiled for further sizes
    assert all(
        any(program.bounds is not None for program in code.own_programs) for code in executable.code.steps._codes()
    )
    executable.save(tmp_path / "model.stw")
    _check(stepwell.load(tmp_path / "model.stw", threads=1), model)


def halves() -> onnx.ModelProto:
    """The part behind the choice reads every second column of it, and places of which two dimensions give the rest."""
    nodes = [
        _NODE("Slice", ["x", "first", "end", "last", "two"], ["a"]),
        _NODE("Greater", ["a", "bound"], ["is_great"]),
        _NODE("NonZero", ["is_great"], ["places"]),
        _NODE("Transpose", ["places"], ["rows"], perm=[1, 0]),
        _NODE("GatherND", ["a", "rows"], ["values"]),
        _NODE("Softmax", ["values"], ["y"], axis=0),
        _NODE("ReduceSum", ["a", "last"], ["b"]),
        _NODE("Exp", ["b"], ["c"]),
        _NODE("Concat", ["c", "column"], ["d"], axis=0),
        _NODE("Mul", ["values", "y"], ["z"]),
        _NODE("ReduceSum", ["z", "first"], ["e"]),
        _NODE("Add", ["d", "e"], ["total"]),
    ]
    weights = {
        "first": np.array([0]),
        "last": np.array([1]),
        "end": np.array([1 << 40]),
        "two": np.array([2]),
        "bound": np.array(0.5, np.float32),
        "column": _floats(1, 1),
    }
    return _model(nodes, {"x": (_FLOAT, [3, "n"])}, ["y", "total", "places"], **weights)


@pytest.mark.parametrize("make", [*MODELS, halves], ids=lambda make: make.__name__)
def test_declared_ranges_lead_to_one_program_for_each_part(make, tmp_path):
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = stepwell.Options(dims={"n": (1, 64)}, cache=False, fallback="error")
        executable = stepwell.compile(model, threads=1, options=options)
        count = len(executable.programs)
        _check(executable, model)
    assert len(executable.programs) == count == len(executable.code.steps.plan.steps)
    assert not executable.unranged and not executable.uncompiled
    executable.save(tmp_path / "model.stw")
    stored = stepwell.load(tmp_path / "model.stw", threads=1)
    assert stored.source is None
    _check(stored, model)
    with pytest.raises(stepwell.InputError, match="dimension 'n' is 65, but the model was compiled for 1 to 64"):
        executable(**_feed(model, 65, np.random.default_rng(0)))


def test_a_second_process_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    model, dims = detections(), {"n": (1, 64)}
    first = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims))
    second = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache="require"))
    _check(second, model)
    assert [program.bounds for program in first.programs] == [program.bounds for program in second.programs]


def test_a_part_without_ranges_is_compiled_for_each_size():
    """The length of a Fourier transform decides on its factors."""
    nodes = [
        _NODE("Greater", ["x", "bound"], ["is_great"]),
        _NODE("Compress", ["x", "is_great"], ["a"], axis=0),
        _NODE("Reshape", ["a", "signal"], ["b"]),
        _NODE("DFT", ["b"], ["y"], axis=1),
    ]
    weights = {"bound": np.array(0.5, np.float32), "signal": np.array([1, -1, 1])}
    model = _model(nodes, {"x": (_FLOAT, ["n"])}, ["y"], **weights)
    with pytest.warns(stepwell.SlowWarning, match="compiled for each size separately"):
        executable = stepwell.compile(model, threads=1, options=stepwell.Options(dims={"n": (1, 16)}, cache=False))
    assert executable.unranged
    x = np.array([1, 0, 2, 0, 3, 4], np.float32)
    transformed = np.fft.fft(x[x > 0.5])
    np.testing.assert_allclose(executable(x)[0], np.stack([transformed.real, transformed.imag], -1), atol=1e-5)


def as_many_as_positive() -> onnx.ModelProto:
    """As many greatest elements of each row as numbers are positive on average."""
    nodes = [
        _NODE("Greater", ["x", "zero"], ["is_positive"]),
        _NODE("Cast", ["is_positive"], ["ones"], to=_INT),
        _NODE("ReduceSum", ["ones"], ["all"], keepdims=0),
        _NODE("Div", ["all", "rows"], ["number"]),
        _NODE("Reshape", ["number", "one"], ["k"]),
        _NODE("TopK", ["x", "k"], ["values", "places"], axis=1),
        _NODE("Softmax", ["values"], ["y"], axis=1),
        _NODE("ReduceSum", ["y", "axis"], ["total"], keepdims=0),
    ]
    weights = {
        "zero": np.array(0, np.float32),
        "rows": np.array(3),
        "one": np.array([1]),
        "axis": np.array([0]),
    }
    return _model(nodes, {"x": (_FLOAT, [3, "n"])}, ["y", "total", "places"], **weights)


@pytest.mark.parametrize("dims", [{}, {"n": (1, 64)}], ids=["inferred", "declared"])
def test_a_number_of_greatest_elements_that_depends_on_data(dims):
    model = as_many_as_positive()
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        options = stepwell.Options(dims=dims, cache=False, fallback="error")
        executable = stepwell.compile(model, threads=1, options=options)
        _check(executable, model)
    assert not executable.fallbacks and not executable.unranged


def test_more_elements_than_there_are_cannot_be_taken():
    nodes = [
        _NODE("ReduceSum", ["x"], ["sum"]),
        _NODE("Cast", ["sum"], ["number"], to=_INT),
        _NODE("Reshape", ["number", "one"], ["k"]),
        _NODE("TopK", ["x", "k"], ["y", "places"], largest=0),
    ]
    model = _model(nodes, {"x": (_FLOAT, ["n"])}, ["y", "places"], one=np.array([1]))
    options = stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback="error")
    executable = stepwell.compile(model, threads=1, options=options)
    for n in range(1, 10):
        y, places = executable(np.eye(1, n, dtype=np.float32)[0] * n)
        np.testing.assert_array_equal(y, [0] * (n - 1) + [n])
        np.testing.assert_array_equal(places, [*range(1, n), 0])
        for number in (-1, n + 1):
            with pytest.raises(stepwell.GuardError, match="cannot take that many elements"):
                executable(np.eye(1, n, dtype=np.float32)[0] * number)
    assert len(executable.programs) == 1


def read_until(bound: float, most: int, condition: bool | None = None) -> onnx.ModelProto:
    """A decoder that attends to features of any length, and ends when a sum exceeds a bound."""
    kinds = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("on", "again")]
    body = helper.make_graph(
        [
            _NODE("MatMul", ["q", "w"], ["a"]),
            _NODE("Unsqueeze", ["a", "one"], ["b"]),
            _NODE("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
            _NODE("MatMul", ["b", "turned"], ["scores"]),
            _NODE("Softmax", ["scores"], ["weights"], axis=-1),
            _NODE("MatMul", ["weights", "x"], ["c"]),
            _NODE("Squeeze", ["c", "one"], ["d"]),
            _NODE("Add", ["d", "q"], ["next"]),
            _NODE("ArgMax", ["next"], ["token"], axis=1, keepdims=0),
            _NODE("ReduceSum", ["next"], ["sum"], keepdims=0),
            _NODE("Abs", ["sum"], ["size"]),
            _NODE("Less", ["size", "bound"], ["again"]),
        ],
        "body",
        [helper.make_tensor_value_info("i", _INT, []), kinds[0], helper.make_tensor_value_info("q", _FLOAT, ["b", 8])],
        [kinds[1], *(helper.make_empty_tensor_value_info(name) for name in ("next", "token", "next"))],
    )
    nodes = [
        _NODE("ReduceMean", ["x"], ["start"], axes=[1], keepdims=0),
        _NODE(
            "Loop", ["most", "" if condition is None else "begins", "start"], ["last", "tokens", "states"], body=body
        ),
        _NODE("ReduceMax", ["states"], ["y"], axes=[0], keepdims=0),
    ]
    weights = {
        "w": _floats(8, 8) / 4,
        "one": np.array([1]),
        "bound": np.array(bound, np.float32),
        "most": np.array(most),
        **({} if condition is None else {"begins": np.array(condition)}),
    }
    graph = _model(nodes, {"x": (_FLOAT, ["b", "n", 8])}, ["last", "tokens", "y"], **weights)
    graph.opset_import[0].version = 17
    for node in body.node:
        if node.op_type == "ReduceSum":
            node.ClearField("input")
            node.input.append("next")
    return graph


@pytest.mark.parametrize("dims", [{}, {"b": (1, 4), "n": (1, 40)}], ids=["inferred", "declared"])
def test_a_loop_that_ends_when_its_data_says_so(dims):
    model = read_until(9.0, 12)
    options = stepwell.Options(dims=dims, cache=False, fallback="error")
    executable = stepwell.compile(model, threads=1, options=options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng, lengths = np.random.default_rng(3), set()
    for batch, n in ((1, 40), (4, 1), (2, 17), (1, 1), (3, 30), (4, 40), (2, 2)):
        x = rng.standard_normal((batch, n, 8), np.float32)
        found, wanted = executable(x), session.run(None, {"x": x})
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-4, atol=1e-4, strict=True)
        lengths.add(len(found[1]))
    assert not executable.fallbacks and not executable.unranged
    assert len(lengths) > 2 and max(lengths) <= 12


def test_a_loop_without_iterations_adds_no_rows():
    model = read_until(9.0, 12, condition=False)
    model.graph.node[2].CopyFrom(_NODE("Identity", ["states"], ["y"]))
    executable = stepwell.compile(
        model, threads=1, options=stepwell.Options(dims={"b": 2, "n": (1, 9)}, cache=False, fallback="error")
    )
    last, tokens, states = executable(np.ones((2, 5, 8), np.float32))
    np.testing.assert_allclose(last, np.ones((2, 8)))
    assert tokens.shape == (0, 2) and states.shape == (0, 2, 8)
