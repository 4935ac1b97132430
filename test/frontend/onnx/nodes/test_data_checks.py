"""Checks of indices and divisors: valid data passes, other data is a `DataError` that names the node."""

import numpy as np
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from stepwell.compat import onnxruntime as drop_in
from stepwell.runtime.execution.data_check import DataCheck, guard_error

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def ints(*values):
    """Returns indices."""
    return np.array(values, np.int64)


def model_of(nodes, inputs, output, weights=()):
    """A model of nodes; `inputs` are arrays or (dtype, shape) by name."""
    infos = []
    for name, given in inputs.items():
        dtype, shape = (given.dtype, given.shape) if isinstance(given, np.ndarray) else given
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(output)), None)
    stored = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True)
        for name, array in dict(weights).items()
    ]
    graph = helper.make_graph(nodes, "checks", infos, [result], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def one_node(op_type, arrays, weights=(), **attributes):
    """A model of one node named 'node', and its inputs."""
    names = [f"x{number}" for number in range(len(arrays))]
    given = dict(zip(names, arrays, strict=True))
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    stored = {name: given.pop(name) for name in weights}
    return model_of([node], given, arrays[0].dtype, stored), list(given.values())


def compiled(model, checked, **options):
    """Compiles a model without the cache."""
    return stepwell.compile(model, options={"cache": False, "checked": checked, **options})


GOOD = [
    ("Gather", [TABLE, ints(-4, 3)], {}),
    ("Gather", [TABLE, np.array(-3, np.int32)], {"axis": 1}),
    ("GatherElements", [TABLE, ints(0, -4, 3).reshape(1, 3)], {}),
    ("GatherND", [TABLE, ints(-4, 2, 3, -3).reshape(2, 2)], {}),
    ("ScatterElements", [TABLE, ints(0, -4, 3).reshape(1, 3), TABLE[:1]], {}),
    ("ScatterElements", [TABLE, ints(0, -3, 2, 1).reshape(4, 1), TABLE[:, :1]], {"axis": 1}),
    ("ScatterND", [TABLE, ints(-4, 3).reshape(2, 1), TABLE[:2]], {}),
    ("Div", [ints(7, 8), ints(-2, 1)], {}),
    ("Mod", [ints(7, 8), ints(-2, 1)], {}),
]
BAD = [
    ("Gather", [TABLE, ints(0, 4)], {}, r"index 4 is outside of \[-4, 3\]"),
    ("Gather", [TABLE, np.array(-4, np.int32)], {"axis": 1}, r"index -4 is outside of \[-3, 2\]"),
    ("GatherElements", [TABLE, ints(0, -5, 3).reshape(1, 3)], {}, r"index -5 is outside of \[-4, 3\]"),
    ("GatherND", [TABLE, ints(3, 3, 3, -3).reshape(2, 2)], {}, r"index 3 is outside of \[-3, 2\]"),
    ("ScatterElements", [TABLE, ints(0, 9, 3).reshape(1, 3), TABLE[:1]], {}, r"index 9 is outside of \[-4, 3\]"),
    ("ScatterND", [TABLE, ints(-4, -5).reshape(2, 1), TABLE[:2]], {}, r"index -5 is outside of \[-4, 3\]"),
    ("Div", [ints(7, 8), ints(-2, 0)], {}, "an integer is divided by zero"),
    ("Mod", [ints(7, 8), ints(0, 1)], {}, "an integer is divided by zero"),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), GOOD)
def test_valid_data_passes(op_type, arrays, attributes):
    model, feeds = one_node(op_type, arrays, **attributes)
    expected = np.asarray(compiled(model, False)(*feeds))
    np.testing.assert_array_equal(np.asarray(compiled(model, True)(*feeds)), expected)


@pytest.mark.parametrize("checked", [True, "inputs"])
@pytest.mark.parametrize(("op_type", "arrays", "attributes", "message"), BAD)
def test_other_data_is_an_error_that_names_the_node(checked, op_type, arrays, attributes, message):
    model, feeds = one_node(op_type, arrays, **attributes)
    executable = compiled(model, checked)
    with pytest.raises(stepwell.DataError, match=rf"^node 'node' \({op_type}\): {message}$") as caught:
        executable(*feeds)
    assert isinstance(caught.value, stepwell.GuardError | ValueError) and caught.value.node == "node"


@pytest.mark.parametrize(("op_type", "arrays", "attributes", "message"), BAD)
def test_unchecked_code_gives_numbers(op_type, arrays, attributes, message):
    model, feeds = one_node(op_type, arrays, **attributes)
    executable = compiled(model, False)
    assert executable.programs[0].guards == () and np.asarray(executable(*feeds)).dtype == arrays[0].dtype


@pytest.mark.parametrize(("bad", "divides"), [(4, False), (0, True)])
def test_constants_are_checked_when_compiled(bad, divides):
    arrays = [ints(7, 8), ints(1, bad)] if divides else [TABLE, ints(1, bad)]
    model, feeds = one_node("Div" if divides else "Gather", arrays, weights=["x1"])
    with pytest.raises(stepwell.DataError):
        compiled(model, True)(*feeds)
    arrays[1] = ints(1, 3)
    fine, _ = one_node("Div" if divides else "Gather", arrays, weights=["x1"])
    assert compiled(fine, True).programs[0].guards == ()


def test_large_constants_need_no_check_at_run_time():
    model, feeds = one_node("Gather", [TABLE, np.arange(1000) % 4], weights=["x1"])
    assert compiled(model, True).programs[0].guards == ()
    model, feeds = one_node("Gather", [TABLE, np.arange(1000) % 5], weights=["x1"])
    with pytest.raises(stepwell.DataError):
        compiled(model, True)(*feeds)


def test_computed_indices_are_checked_on_request_only():
    nodes = [
        helper.make_node("Add", ["ids", "ids"], ["twice"]),
        helper.make_node("Gather", ["table", "twice"], ["y"], name="lookup"),
    ]
    model = model_of(nodes, {"ids": ints(0, 1)}, np.float32, {"table": TABLE})
    for checked in (False, "inputs"):
        assert compiled(model, checked).programs[0].guards == ()
    executable = compiled(model, True)
    np.testing.assert_array_equal(np.asarray(executable(ints(0, 1))), TABLE[[0, 2]])
    with pytest.raises(stepwell.DataError, match=r"'lookup' \(Gather\): an index is outside of \[-4, 3\]"):
        executable(ints(0, 2))


def test_indices_that_are_an_input_in_another_shape_are_from_an_input():
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["wide", "axes"], ["column"]),
        helper.make_node("Gather", ["table", "column"], ["y"], name="lookup"),
    ]
    weights = {"table": TABLE, "axes": ints(0)}
    model = model_of(nodes, {"ids": np.zeros(2, np.int32)}, np.float32, weights)
    with pytest.raises(stepwell.DataError, match=r"index 8 is outside of \[-4, 3\]"):
        compiled(model, "inputs")(np.array([0, 8], np.int32))


def test_ranges_of_sizes():
    nodes = [helper.make_node("Gather", ["x", "ids"], ["y"], name="lookup")]
    model = model_of(nodes, {"x": (np.float32, ("n", 3)), "ids": (np.int64, ("m",))}, np.float32)
    executable = compiled(model, "inputs", dims={"n": (1, 8), "m": (1, 8)}, fallback="error")
    assert executable.unranged == ""
    for count in (1, 3, 8):
        table = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
        ids = np.arange(-count, count)[:8]
        np.testing.assert_array_equal(np.asarray(executable(table, ids)), table[ids])
        for index in (count, -count - 1):
            with pytest.raises(stepwell.DataError, match=r"'lookup' \(Gather\): an index is outside of its dimension"):
                executable(table, ints(0, index))
    assert len(executable.programs) == 1


def test_a_branch_is_checked_if_it_is_taken():
    y = [helper.make_tensor_value_info("y1", TensorProto.FLOAT, None)]
    then = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y1"], name="lookup")], "then", [], y)
    y = [helper.make_tensor_value_info("y2", TensorProto.FLOAT, None)]
    other = helper.make_graph([helper.make_node("Identity", ["table"], ["y2"])], "else", [], y)
    nodes = [helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    model = model_of(nodes, {"flag": (np.bool_, ()), "ids": ints(0, 0, 0, 0)}, np.float32, {"table": TABLE})
    executable = compiled(model, True)
    np.testing.assert_array_equal(np.asarray(executable(np.array(False), ints(0, 9, 0, 0))), TABLE)
    with pytest.raises(stepwell.DataError, match="'lookup'"):
        executable(np.array(True), ints(0, 9, 0, 0))


def test_loops_run_natively_and_unchecked():
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "number"], ["row"]),
            helper.make_node("Add", ["carried", "row"], ["sum"]),
            helper.make_node("Identity", ["flag"], ["goes_on"]),
        ],
        "body",
        [
            value("number", TensorProto.INT64, ()),
            value("flag", TensorProto.BOOL, ()),
            value("carried", TensorProto.FLOAT, (3,)),
        ],
        [value("goes_on", TensorProto.BOOL, ()), value("sum", TensorProto.FLOAT, (3,))],
    )
    nodes = [helper.make_node("Loop", ["count", "", "start"], ["y"], body=body)]
    inputs = {"count": (np.int64, ()), "start": np.zeros(3, np.float32)}
    model = model_of(nodes, inputs, np.float32, {"table": TABLE})
    executable = compiled(model, True, fallback="error")
    result = np.asarray(executable(np.array(4), np.zeros(3, np.float32)))
    np.testing.assert_array_equal(result, TABLE.sum(0))
    assert executable.programs[0].guards == ()


def test_artefacts_and_the_cache_keep_checks(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    model, feeds = one_node("Gather", [TABLE, ints(0, 4)])
    stepwell.compile(model, options={"checked": True})
    checked = stepwell.compile(model, options={"cache": "require", "checked": True})
    with pytest.raises(stepwell.DataError, match="index 4"):
        checked(*feeds)
    unchecked = stepwell.compile(model, options={"checked": False})
    assert np.asarray(unchecked(*feeds)).shape == (2, 3)
    with pytest.raises(stepwell.DataError, match="index 4"):
        stepwell.compile(model)(*feeds)
    checked.save(tmp_path / "model.stw")
    with pytest.raises(stepwell.DataError, match="index 4"):
        stepwell.load(tmp_path / "model.stw")(*feeds)


@pytest.mark.parametrize(("op_type", "arrays", "attributes", "message"), BAD)
def test_the_drop_in_raises_as_onnxruntime(op_type, arrays, attributes, message):
    model, feeds = one_node(op_type, arrays, **attributes)
    data, feed = model.SerializeToString(), {f"x{number}": array for number, array in enumerate(feeds)}
    original = onnxruntime.SessionOptions()
    original.log_severity_level = 4
    with pytest.raises((Fail, InvalidArgument)) as expected:
        onnxruntime.InferenceSession(data, original, providers=["CPUExecutionProvider"]).run(None, feed)
    with pytest.raises((drop_in.errors.Fail, drop_in.errors.InvalidArgument)) as caught:
        drop_in.InferenceSession(data).run(None, feed)
    assert type(caught.value).__name__ == type(expected.value).__name__
    head, said = str(caught.value).split("Status Message: ")
    wanted_head, wanted = str(expected.value).split("Status Message: ")
    # ONNX Runtime puts its source location before some messages.
    assert head == wanted_head and wanted.strip().endswith(said)


def test_a_loaded_model_checks_further_shapes_too(tmp_path):
    node = helper.make_node("Gather", ["table", "ids"], ["y"], name="lookup")
    model = model_of([node], {"ids": (np.int64, ("n",))}, np.float32, {"table": TABLE})
    compiled(model, "inputs", shapes={"ids": (2,)}).save(tmp_path / "model.stw", keep_model=True)
    executable = stepwell.load(tmp_path / "model.stw")
    for count in (2, 3):
        with pytest.raises(stepwell.DataError, match=r"'lookup' \(Gather\): index 4 is outside of \[-4, 3\]"):
            executable(np.full(count, 4))


@pytest.mark.parametrize("check", [DataCheck("a/'b\"", "Gather", "ids", (4, 5)), DataCheck("d", "Div")])
def test_a_check_survives_being_text(check):
    assert DataCheck.parse(check.text) == check
    assert DataCheck.parse("the then branch of 'If' cannot run") is None


def test_guards_that_branches_joined_are_one_error():
    text = f"{DataCheck('a', 'Gather').text}; {DataCheck('b', 'Div').text}"
    error = guard_error(text, {})
    assert isinstance(error, stepwell.DataError) and "'a' (Gather)" in str(error) and "'b' (Div)" in str(error)
