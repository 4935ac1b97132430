"""A kernel written out, edited by hand and put back: at every phase, with its schedule, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell import Options, PassError
from stepwell.tools.compile import main

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
PHASES = ("kernels", "tiled", "vector", "memref", "llvm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("Softmax", ["t"], ["s"], name="soft", axis=1),
        helper.make_node("ReduceSum", ["s", "axes"], ["y"], name="sum", keepdims=0),
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "graph", ports, outputs, [axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def _written(path: Path, phase: str, kernel: str = "sum") -> Path:
    output = path.with_name(f"{phase}.mlir")
    assert main([str(path), "--compile-to", phase, "--kernel", kernel, "-o", str(output)]) == 0
    return output


def _run(path: Path, kernel: str, file: Path) -> np.ndarray:
    return stepwell.compile(path, threads=1, options=Options(substitutes={kernel: file}))(X)


@pytest.mark.parametrize("phase", PHASES)
def test_what_is_put_back_as_it_was_computes_the_same(path: Path, phase: str) -> None:
    file = _written(path, phase)
    assert f'stepwell.phase = "{phase}"' in file.read_text()
    np.testing.assert_array_equal(_run(path, "sum", file), stepwell.compile(path, threads=1)(X))


@pytest.mark.parametrize("phase", PHASES)
def test_an_edit_shows_in_what_comes_out(path: Path, phase: str) -> None:
    file = _written(path, phase)
    text, count = re.subn(r"(constant\S* ?\(?(?:dense<)?)0\.000000e\+00", r"\g<1>1.000000e+01", file.read_text())
    assert count, text
    file.write_text(text)
    difference = _run(path, "sum", file) - stepwell.compile(path, threads=1)(X)
    assert (np.abs(difference) > 5).all()


def test_a_schedule_is_put_back_likewise(path: Path) -> None:
    file = _written(path, "kernels", "soft")
    before = _written(path, "tiled", "soft").read_text()
    text = file.read_text()
    schedule = 'stepwell.schedule = {name = "mine", unroll = 3 : i64}'
    edited = text.replace("attributes {stepwell.kernel", f"attributes {{{schedule}, stepwell.kernel", 1)
    assert edited != text
    file.write_text(edited)
    output = path.with_name("edited.mlir")
    arguments = [str(path), "--compile-to=tiled", "--kernel=soft", f"--substitute=soft=@{file}", "-o", str(output)]
    assert main(arguments) == 0
    assert "unroll = 3" in output.read_text() and "unroll = 3" not in before


def _fails(path: Path, text: str, kernel: str = "sum") -> str:
    file = path.with_name("wrong.mlir")
    file.write_text(text)
    with pytest.raises(PassError) as caught:
        _run(path, kernel, file)
    return str(caught.value)


def test_what_cannot_be_put_back_is_refused(path: Path) -> None:
    text = _written(path, "kernels").read_text()
    assert "there is no kernel 'other'; the kernels are kernel_" in _fails(path, text, "other")
    assert "wrong.mlir: not MLIR" in _fails(path, "func.func @")
    assert "its 'stepwell.phase' must be one of kernels" in _fails(path, "module {}")
    assert "holds 0 functions" in _fails(path, 'module attributes {stepwell.phase = "tiled"} {}')
    assert "has the type" in _fails(path, _written(path, "kernels", "soft").read_text())
    with pytest.raises(PassError, match=r"absent\.mlir: No such file"):
        _run(path, "sum", path.with_name("absent.mlir"))


def test_the_command_refuses_what_makes_no_sense(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(path), "--kernel", "sum"]) == 2
    assert "--kernel goes with --compile-to" in capsys.readouterr().err
    assert main([str(path), "--substitute", "sum"]) == 2
    assert "write it as" in capsys.readouterr().err
