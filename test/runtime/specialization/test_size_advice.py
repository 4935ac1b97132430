"""The warning of calls that compile for one size after another, and the options that it suggests."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime.specialization import size_advice
from stepwell.sizes.dims_option import read_dims
from stepwell.support.errors import SlowWarning


def negation(*dims: str | int) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_third_size_is_warned_of_once() -> None:
    executable = stepwell.compile(negation("n", "m"), options={"ranges": False})
    executable(np.ones((2, 3), np.float32))
    executable(np.ones((5, 3), np.float32))
    executable(np.ones((5, 3), np.float32))
    with pytest.warns(SlowWarning, match=r"dimension 'n' was 2, 5 and 9\.") as found:
        executable(np.ones((9, 3), np.float32))
    (only,) = found
    assert only.filename == __file__
    text = str(only.message)
    assert text.endswith("stepwell.Options(dims={'n': (1, 16), 'm': 3}), or on a command line --dims n=1:16,m=3")
    executable(np.ones((11, 3), np.float32))  # warnings would be errors

    pasted = stepwell.compile(negation("n", "m"), options=stepwell.Options(dims={"n": (1, 16), "m": 3}))
    for size in (2, 5, 9, 11, 16):
        assert pasted(np.ones((size, 3), np.float32)).shape == (size, 3)


def test_sizes_prepared_ahead_are_no_reason_to_warn() -> None:
    executable = stepwell.compile(negation("n"))
    for size in (1, 2, 3, 4):
        executable.prepare({"x": (size,)})
        executable(np.ones(size, np.float32))


def test_a_warning_raised_as_an_error_loses_no_code() -> None:
    executable = stepwell.compile(negation("n"), options={"ranges": False})
    x = np.ones(3, np.float32)
    executable(x[:1])
    executable(x[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SlowWarning):
            executable(x)
    assert len(executable.programs) == 3
    np.testing.assert_array_equal(executable(x), -x)


@pytest.mark.parametrize(
    ("seen", "dims"),
    [
        ([{"n": 1}, {"n": 2}, {"n": 3}], {"n": (1, 4)}),
        ([{"n": 0}, {"n": 2}, {"n": 1}], {"n": (0, 2)}),
        ([{"h": 320}, {"h": 640}, {"h": 960}], {"h": (32, 1024, 32)}),
        ([{"n": 7, "m": 7}, {"n": 9, "m": 9}, {"n": 17, "m": 17}], {"n": (1, 32), "m": "n"}),
        ([{"n": 7, "m": 1}, {"n": 9, "m": 2}, {"n": 17, "m": 1}], {"n": (1, 32), "m": (1, 2)}),
        (
            [{"p": 1, "n": 1, "p + n": 2}, {"p": 2, "n": 1, "p + n": 3}, {"p": 4, "n": 1, "p + n": 5}],
            {"p": (1, 4), "n": 1},
        ),
    ],
)
def test_suggestion(seen: Sequence[dict[str, int]], dims: dict) -> None:
    assert size_advice.suggested(seen) == dims
    assert read_dims([size_advice.as_text(dims)]) == dims


def test_the_command_line_is_quoted_or_left_out() -> None:
    assert size_advice.as_option({"my n": (1, 2)}).endswith("--dims 'my n=1:2'")
    assert "--dims" not in size_advice.as_option({"a,b": (1, 2)})


@pytest.mark.parametrize(
    ("size", "pasted"), [(5, "'n': (2, 8) in `dims`, or --dims n=2:8"), (1, "'n': (1, 4) in `dims`, or --dims n=1:4")]
)
def test_a_size_out_of_range_says_what_to_paste(size: int, pasted: str) -> None:
    executable = stepwell.compile(negation("n"), options=stepwell.Options(dims={"n": (2, 4)}))
    with pytest.raises(stepwell.InputError, match=f"dimension 'n' is {size}, but .* 2 to 4") as caught:
        executable(np.ones(size, np.float32))
    assert str(caught.value).endswith(pasted)
