"""The comparison of two checkouts' code: equal to itself, and different where an object is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

SCRIPT = Path(__file__).parent / "same_code.py"
_SPEC = importlib.util.spec_from_file_location("same_code", SCRIPT)
assert _SPEC is not None and _SPEC.loader is not None
same_code = importlib.util.module_from_spec(_SPEC)
sys.modules["same_code"] = same_code
_SPEC.loader.exec_module(same_code)


@pytest.mark.sweep
def test_a_checkout_is_equal_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy")
    save(helper.make_model(helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])), tmp_path / "m")
    assert same_code.main([str(same_code.ROOT), str(tmp_path / "m")]) == 0
    assert "m x86-64-v3: 2 objects equal, 0 only here, 0 only there" in capsys.readouterr().out


def test_other_code_is_counted() -> None:
    here = {"objects": {"a": "1", "b": "2", "c": "2"}, "bytes": 30, "parameters": [], "arena": [64]}
    there = {"objects": {"a": "1", "b": "2", "d": "3"}, "bytes": 31, "parameters": [], "arena": [128]}
    found = same_code.Comparison.of("m", here, there)
    assert (found.equal, found.here, found.there, found.differences) == (2, 1, 1, 1)
    assert not found.is_equal


def test_names_of_kernels_do_not_count() -> None:
    one, other = (f"call kernel_{digit * 20}; call kernel_{'f' * 20}".encode() for digit in "ab")
    assert same_code._without_names(one) == same_code._without_names(other)
    assert same_code._without_names(one) != same_code._without_names(b"call kernel_" + b"f" * 20)
