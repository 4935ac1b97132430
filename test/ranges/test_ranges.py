"""Ranges of sizes that users give, and how programs, artefacts and errors show them."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
import stepwell
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime.program import TensorInfo
from stepwell.sizes.buckets import parse_dims
from stepwell.sizes.ranges import Range
from stepwell.support.errors import InputError
from stepwell.tools.arguments import parse_dims as parse_dims_options
from stepwell.tools.flags import UsageError

INPUTS = (TensorInfo("x", np.dtype(np.float32), ("n", 3, "m")),)

MODEL = """
func.func @main(%x: tensor<?x4xf32> {stepwell.name = "x", stepwell.dims = ["n", 4]})
    -> (tensor<?x4xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.softmax"(%x) {axis = 0 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(0))
    return powers / powers.sum(0)


def _compile(**dims: object) -> stepwell.Executable:
    return stepwell.compile(
        MODEL.encode(), threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error")
    )


def test_a_range_is_one_program():
    executable = _compile(n=(1, 9))
    x = np.random.default_rng(0).standard_normal((5, 4), np.float32)
    np.testing.assert_allclose(executable(x), _softmax(x), rtol=1e-5)
    assert len(executable.programs) == 1
    assert executable.ranges == {"n": Range(1, 9)}


def test_explain_lists_the_ranges_of_programs():
    executable = _compile(n=[(2, 4), (5, 9)])
    first, second = executable.explain().splitlines()
    assert first.startswith("n 2 to 4: ") and second.startswith("n 5 to 9: ")
    assert f"{len(executable.programs[0].kernels)} kernels" in first
    assert "one program for all of these sizes" in first


def test_the_command_line_takes_sizes():
    texts = ["a=3,b=1:64", "c=32:960:32", "d=16/64,e=x.0,f=a + 2*b"]
    assert parse_dims_options(texts) == {
        "a": 3,
        "b": (1, 64),
        "c": (32, 960, 32),
        "d": [16, 64],
        "e": "x.0",
        "f": "a + 2*b",
    }
    for wrong in ("a", "a=", "a=1:x", "=1:2"):
        with pytest.raises(UsageError):
            parse_dims_options([wrong])


def test_buckets_are_programs_of_which_the_smallest_that_fits_runs():
    executable = _compile(n=[4, 16])
    for size in (1, 4, 5, 16):
        x = np.random.default_rng(size).standard_normal((size, 4), np.float32)
        np.testing.assert_allclose(executable(x), _softmax(x), rtol=1e-5)
    assert [program.bounds and program.bounds.ranges["n"] for program in executable.programs] == [
        Range(1, 4),
        Range(5, 16),
    ]


def test_an_artefact_serves_all_sizes_without_a_compiler(tmp_path):
    _compile(n=(1, 9)).save(tmp_path / "model.stw")
    loaded = stepwell.load(tmp_path / "model.stw")
    for size in (1, 3, 9):
        x = np.random.default_rng(size).standard_normal((size, 4), np.float32)
        np.testing.assert_allclose(loaded(x), _softmax(x), rtol=1e-5)
    with pytest.raises(InputError, match="dimension 'n' is 10, but the model was compiled for 1 to 9"):
        loaded(np.zeros((10, 4), np.float32))


@pytest.mark.parametrize("is_stored", [False, True])
def test_prepare_returns_the_program_for_the_range_of_a_size(is_stored, tmp_path):
    executable = _compile(n=(1, 9))
    if is_stored:
        executable.save(tmp_path / "model.stw")
        executable = stepwell.load(tmp_path / "model.stw")
    assert executable.prepare({"x": (5, 4)}) is executable.programs[0]
    assert len(executable.programs) == 1
    with pytest.raises(InputError, match="dimension 'n' is 10, but the model was compiled for 1 to 9"):
        executable.prepare({"x": (10, 4)})


def test_a_size_out_of_range_is_refused():
    with pytest.raises(InputError, match="dimension 'n' is 3, but the model was compiled for 2 to 8 in steps of 2"):
        _compile(n=(2, 8, 2))(np.zeros((3, 4), np.float32))


def test_a_fixed_size_is_compiled_as_one():
    executable = _compile(n=3)
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    np.testing.assert_allclose(executable(x), _softmax(x), rtol=1e-5)
    assert executable.programs[0].bounds is None
    with pytest.raises(InputError, match="compiled for 3"):
        executable(np.zeros((4, 4), np.float32))


def test_a_model_without_a_program_for_a_range_is_compiled_for_each_size():
    text = (
        MODEL.replace("softmax", "bitcast")
        .replace("axis = 0 : i64", "dtype = i32")
        .replace("-> (tensor<?x4xf32>", "-> (tensor<?x4xi32>")
        .replace("-> tensor<?x4xf32>", "-> tensor<?x4xi32>")
        .replace("%0 : tensor<?x4xf32>", "%0 : tensor<?x4xi32>")
    )
    with pytest.warns(UserWarning, match=r"compiled for each size separately.*'stepwell.bitcast' op"):
        executable = stepwell.compile(
            text.encode(), threads=1, options=stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback="error")
        )
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(executable(x), x.view(np.int32))
    first, second = executable.explain().splitlines()
    assert first.startswith(
        "each size is compiled separately, at its first call: 'stepwell.bitcast' op: it has no rule"
    )
    assert second.startswith("x=5x4: ")
    with pytest.raises(InputError, match="compiled for 1 to 9"):
        executable(np.zeros((10, 4), np.float32))


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_means_of_integers_are_rounded_towards_zero(dtype):
    kind = {"int8": "i8", "uint64": "ui64"}[dtype]
    text = (
        MODEL.replace("softmax", "reduce_mean")
        .replace("axis = 0 : i64", "axes = array<i64: 0>, keepdims = false")
        .replace("-> (tensor<?x4xf32>", "-> (tensor<4xf32>")
        .replace("-> tensor<?x4xf32>", "-> tensor<4xf32>")
        .replace("%0 : tensor<?x4xf32>", "%0 : tensor<4xf32>")
        .replace("xf32", f"x{kind}")
    )
    options = stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback="error")
    executable = stepwell.compile(text.encode(), threads=1, options=options)
    assert not executable.unranged
    limits = np.iinfo(dtype)
    for rows in (1, 7):
        x = np.random.default_rng(0).integers(max(limits.min, -128), min(limits.max, 1 << 40), (rows, 4), dtype)
        np.testing.assert_array_equal(executable(x), np.trunc(x.sum(0, np.int64) / rows))


def _slice(start: int, stop: int, step: int, summed: bool) -> onnx.ModelProto:
    numbers = {"start": [start], "stop": [stop], "axis": [0], "step": [step]}
    nodes = [helper.make_node("Slice", ["x", *numbers], ["part"])]
    nodes.append(
        helper.make_node("ReduceSum", ["part", "axis"], ["y"]) if summed else helper.make_node("Neg", ["part"], ["y"])
    )
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["n", 4]), ("y", None))
    )
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()]
    graph = helper.make_graph(nodes, "sliced", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.few(5)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(1, -1, 1), (-3, -1, 1), (-2, 1 << 31, 1), (2, -(1 << 62), -1), (3, -4, -2), (-3, 1, 1), (-1, 5, 1)],
)
def test_a_slice_that_small_sizes_cut_off(start, stop, step, summed):
    options = stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback="error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = stepwell.compile(_slice(start, stop, step, summed), threads=1, options=options)
    for size in range(1, 10):
        x = np.random.default_rng(size).standard_normal((size, 4), np.float32)
        part = x[start:stop:step]
        wanted = part.sum(0, keepdims=True) if summed else -part
        np.testing.assert_allclose(executable(x), wanted, rtol=1e-5, atol=1e-6, strict=True)


def test_sizes_that_a_slice_is_not_cut_off_at_are_one_program():
    options = stepwell.Options(dims={"n": (2, 9)}, cache=False, fallback="error")
    assert not stepwell.compile(_slice(1, -1, 1, True), threads=1, options=options).unranged


def _computed_slice(kind: str) -> onnx.ModelProto:
    """Adds a sum of columns to all elements; the first or last column's index is computed from the number of rows."""
    node = helper.make_node
    numbers = {"zero": [0], "one": [1], "five": [5], "ten": [10], "end": [1 << 40]}
    nodes = [node("Shape", ["x"], ["shape"]), node("Slice", ["shape", "zero", "one"], ["n"])]
    ways = {
        "falls": ([node("Sub", ["ten", "n"], ["d"]), node("Max", ["d", "zero"], ["e"])], ["zero", "e"]),
        "grows": ([node("Add", ["n", "n"], ["e"])], ["e", "end"]),
        "steps": ([node("Div", ["n", "five"], ["e"])], ["e", "five"]),
        "repeats": ([node("Mod", ["n", "ten"], ["e"])], ["zero", "e"]),
    }
    more, ends = ways[kind]
    nodes += [*more, node("Slice", ["x", *ends, "one"], ["part"]), node("ReduceSum", ["part"], ["sum"], keepdims=0)]
    nodes.append(node("Add", ["x", "sum"], ["y"]))
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["n", 20]), ("y", None))
    )
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()]
    graph = helper.make_graph(nodes, "sliced", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


_ENDS = {
    "falls": lambda n: slice(0, max(10 - n, 0)),
    "grows": lambda n: slice(2 * n, None),
    "steps": lambda n: slice(n // 5, 5),
    "repeats": lambda n: slice(0, n % 10),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("dims", [(1, 9), (1, 14), (3, 20), (1, 40)], ids=str)
@pytest.mark.parametrize("kind", _ENDS)
def test_a_slice_of_less_at_greater_sizes(kind, dims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = stepwell.Options(dims={"n": dims}, cache=False, fallback="error")
        executable = stepwell.compile(_computed_slice(kind), threads=1, options=options)
    for size in sorted({*range(dims[0], dims[1], 3), 5, 9, dims[1]}):
        x = np.random.default_rng(size).standard_normal((size, 20), np.float32)
        np.testing.assert_allclose(executable(x), x + x[:, _ENDS[kind](size)].sum(), rtol=1e-4, atol=1e-5)


_RANGES = st.tuples(st.integers(0, 40), st.integers(1, 1000), st.integers(1, 32)).map(
    lambda item: Range(item[0], item[0] + item[1] * item[2], item[2])
)


@pytest.mark.parametrize("dims", [{"n": (1, 2), "m": 3}, {"n": (1, 2), "m": (1, 9)}, {"n": (1, 5), "m": (0, 23)}])
def test_numbers_are_the_sizes_that_they_look_like(dims):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=TensorProto.FLOAT),
        helper.make_node("Split", ["sizes"], ["n", "m"], num_outputs=2),
        helper.make_node("Mul", ["x", "n"], ["product"]),
        helper.make_node("Add", ["product", "m"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    ports = [[value("x", TensorProto.FLOAT, ["n", "m"])], [value("y", TensorProto.FLOAT, None)]]
    model = helper.make_model(helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 18)])
    run = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error"))
    assert not run.unranged
    for n in (1, 2, 5):
        for m in (1, 3, 9, 17):
            if n in run.ranges["n"] and m in run.ranges["m"]:
                np.testing.assert_array_equal(run(np.ones((n, m), np.float32)), np.full((n, m), n + m, np.float32))


def _two_rows(sizes: tuple[str, str]) -> onnx.ModelProto:
    """A model that multiplies two vectors by the indices of their elements."""
    value = helper.make_tensor_value_info
    nodes, inputs, outputs = [], [], []
    for name, size in zip("xa", sizes, strict=True):
        inputs.append(value(name, TensorProto.FLOAT, [size]))
        outputs.append(value(f"{name}_y", TensorProto.FLOAT, [size]))
        nodes += [
            helper.make_node("Shape", [name], [f"{name}_shape"]),
            helper.make_node("Squeeze", [f"{name}_shape"], [f"{name}_size"]),
            helper.make_node("Range", ["zero", f"{name}_size", "one"], [f"{name}_places"]),
            helper.make_node("Cast", [f"{name}_places"], [f"{name}_numbers"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [name, f"{name}_numbers"], [f"{name}_y"]),
        ]
    constants = [numpy_helper.from_array(np.array(number), name) for name, number in (("zero", 0), ("one", 1))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_bounds_that_are_equal_by_chance():
    """If both sizes are 32, the two index ranges are one constant; at all other sizes they are two."""
    options = stepwell.Options(dims={"n": (1, 32), "m": (1, 32)}, cache=False, fallback="error")
    executable = stepwell.compile(_two_rows(("n", "m")), threads=1, options=options)
    count = len(executable.programs)
    assert count and not executable.unranged
    for sizes in ((1, 1), (32, 32), (32, 7), (3, 32), (9, 9), (20, 1)):
        inputs = [np.random.default_rng(0).standard_normal(size, np.float32) for size in sizes]
        for x, y in zip(inputs, executable(*inputs), strict=True):
            np.testing.assert_allclose(y, x * np.arange(len(x)), rtol=1e-6)
    assert len(executable.programs) == count, "no size is compiled by itself"


def test_negative_too_many_programs():
    sizes = list(range(1, 40))
    with pytest.raises(InputError, match="1521 programs, one per bucket of sizes; the maximum is 256"):
        parse_dims({"n": sizes, "m": sizes}, INPUTS)


def test_fractions_of_sizes() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["size"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["size", "half"], ["middle"]),
        helper.make_node("Add", ["x", "middle"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    half = numpy_helper.from_array(np.array([0.5], np.float32), "half")
    model = helper.make_model(helper.make_graph(nodes, "fractions", infos[:1], infos[1:], [half]))
    run = stepwell.compile(model, options=stepwell.Options(dims={"n": (1, 32)}, cache=False, fallback="error"))
    (program,) = run.programs
    assert program.bounds is not None
    for size in (1, 2, 5, 32):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(run(x), x + size / 2)
