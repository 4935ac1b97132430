"""Options with invalid values: one message about wrong usage."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.bench import command as bench
from stepwell.runtime.cache.keys import key_of
from stepwell.tools import bisect, cache, compile, explore, reduce, run

MANY_DIGITS = "9" * 5000
BENCH = ("models", "model.onnx")


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of the input x[2, 8]."""
    monkeypatch.chdir(tmp_path)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model.onnx")
    return "model.onnx"


def _refusal(main, arguments, capsys):
    """Returns a tool's message about wrong usage."""
    try:
        code = main(arguments)
    except SystemExit as end:  # raised by argparse
        code = end.code
    told = capsys.readouterr().err
    assert code == 2, told
    assert "internal" not in told
    return told.splitlines()[-1]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e400", "x", ""])
@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (bench.main, (*BENCH, "--seconds")),
        (bench.main, (*BENCH, "--limit")),
        (bench.main, ("compare", "old", "new", "--tolerance")),
        (run.main, ("model.onnx", "--rtol")),
        (run.main, ("model.onnx", "--atol")),
        (bisect.main, ("model.onnx", "--rtol")),
        (reduce.main, ("model.onnx", "--timeout")),
        (reduce.main, ("model.onnx", "--seconds")),
    ],
)
def test_amounts_are_numbers_of_zero_or_more(main, arguments, value, capsys):
    """Comparisons with NaN are false: no difference would be found, and no time limit reached."""
    option = arguments[-1]
    said = _refusal(main, [*arguments[:-1], f"{option}={value}"], capsys)
    assert f"argument {option}: '{value}' is not a number of 0 or more" in said


@pytest.mark.parametrize("main", [run.main, bisect.main, reduce.main])
@pytest.mark.parametrize("value", ["-1", "1.5", "x", MANY_DIGITS])
def test_seeds_are_whole_numbers(main, value, capsys):
    said = _refusal(main, ["model.onnx", f"--seed={value}"], capsys)
    assert "is not a whole number of 0 or more" in said and len(said) < 200


@pytest.mark.parametrize("main", [compile.main, run.main, explore.main, reduce.main, bisect.main])
def test_two_dashes_are_not_a_value(main, capsys):
    """argparse turns it into an empty list, which is not a string."""
    assert "argument --target: '--' is not a value" in _refusal(main, ["model.onnx", "--target=--"], capsys)


def test_two_dashes_after_a_command(capsys):
    assert "argument --max-size: '--' is not a value" in _refusal(cache.main, ["gc", "--max-size=--"], capsys)


@pytest.mark.parametrize("option", [f"--dims=n={MANY_DIGITS}", f"--dims=n=1:{2**63}", f"--shape=x=2x{MANY_DIGITS}"])
def test_numbers_that_are_not_a_size(model, option, capsys):
    """Python refuses to parse this many digits, and no dimension has 2^63 elements."""
    assert "is not the size of a dimension" in _refusal(compile.main, [model, option], capsys)


@pytest.mark.parametrize(
    ("option", "main"), [("--expect=", run.main), ("--input=x=@", run.main), ("--inputs=", bisect.main)]
)
@pytest.mark.parametrize("name", ["pipe", "folder", "junk", "damaged.npz", "/dev/zero", "/dev/null", "absent"])
def test_files_without_arrays_are_refused(model, main, option, name, capsys):
    os.mkfifo("pipe")
    os.mkdir("folder")
    with open("junk", "wb") as junk, open("damaged.npz", "wb") as damaged:
        junk.write(b"\x93NUMPY\x01\x00\x76\x00{'descr': (((")
        damaged.write(b"PK\x03\x04 and no more")
    assert " file that can be read: " in _refusal(main, [model, option + name], capsys)


def test_an_array_where_several_are_expected(model, capsys):
    np.save("y.npy", np.zeros((2, 8), np.float32))
    assert "holds one array without a name" in _refusal(run.main, [model, "--expect=y.npy"], capsys)


def test_strings_that_are_not_valid_unicode():
    """File names may be such strings."""
    assert key_of("\udcff") != key_of("\udcfe")


@pytest.mark.parametrize(
    "value",
    [
        "4611686018427387904x8xf32",
        "4611686018427387904x8xf32:0",
        "4611686018427387904x8xf32:range",
        "1x" * 70 + "f32",
        "1x" * 70 + "f32:ones",
        "2x8xui8:-1",
        "2x8xf32:1j",
    ],
)
def test_impossible_arrays_are_refused(model, value, capsys):
    assert "--input x=" in _refusal(run.main, [model, f"--input=x={value}"], capsys)
