"""A kernel is written out, edited by hand and put back: at every phase, with its schedule; invalid edits are errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell import Options, PassError
from stepwell.explain.explore.explorer import explore_model
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


@pytest.mark.few(2)
@pytest.mark.parametrize("phase", PHASES)
def test_an_unchanged_kernel_gives_the_same_results(path: Path, phase: str) -> None:
    file = _written(path, phase)
    assert f'stepwell.phase = "{phase}"' in file.read_text()
    np.testing.assert_array_equal(_run(path, "sum", file), stepwell.compile(path, threads=1)(X))


@pytest.mark.few(2)
@pytest.mark.parametrize("phase", PHASES)
def test_an_edit_changes_the_results(path: Path, phase: str) -> None:
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


def test_a_kernel_has_one_name_at_every_phase_and_in_every_tool(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    executable = stepwell.compile(path, threads=1)
    wanted = next(row["name"] for row in executable.report().kernels if "soft" in row["ops"][0])
    profiled = [row["kernel"] for row in executable.profile({"x": X}, calls=1).record()["kernels"]]
    explored = [row["symbol"] for row in explore_model(path).record["pieces"][0]["kernels"]]
    assert wanted in profiled and sorted(profiled) == sorted(explored)
    assert wanted[:15] in str(executable.report())
    for phase in PHASES:
        for name in (wanted, wanted[:15], wanted.removeprefix("kernel_")[:8], "soft"):
            assert f"@{wanted}(" in _written(path, phase, name).read_text()
    for name in (wanted, wanted[:15], wanted.removeprefix("kernel_")[:8]):
        np.testing.assert_array_equal(_run(path, name, _written(path, "tiled", name)), executable(X))
    assert main([str(path), "--compile-to=tiled", "--kernel=missing", "-o", "-"]) == 1
    assert f"{wanted[:15]} (soft)" in capsys.readouterr().err


@pytest.mark.sweep
def test_a_kernel_that_was_put_back_keeps_its_name(path: Path) -> None:
    names = [kernel.name for kernel in stepwell.compile(path, threads=1).programs[0].kernels]
    for phase in PHASES:
        file = _written(path, phase)
        options = Options(substitutes={"sum": file})
        made = stepwell.compile(path, threads=1, options=options).programs[0].kernels
        assert [kernel.name for kernel in made] == names


def _fails(path: Path, text: str, kernel: str = "sum") -> str:
    file = path.with_name("wrong.mlir")
    file.write_text(text)
    with pytest.raises(PassError) as caught:
        _run(path, kernel, file)
    return str(caught.value)


def test_invalid_replacements_are_refused(path: Path) -> None:
    text = _written(path, "kernels").read_text()
    assert "there is no kernel 'other'; the kernels are kernel_" in _fails(path, text, "other")
    assert "wrong.mlir: not MLIR" in _fails(path, "func.func @")
    assert "its 'stepwell.phase' must be one of kernels" in _fails(path, "module {}")
    assert "holds 0 functions" in _fails(path, 'module attributes {stepwell.phase = "tiled"} {}')
    assert "has the type" in _fails(path, _written(path, "kernels", "soft").read_text())
    with pytest.raises(PassError, match=r"absent\.mlir: No such file"):
        _run(path, "sum", path.with_name("absent.mlir"))


def test_the_command_refuses_incomplete_options(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(path), "--kernel", "sum"]) == 2
    assert "--kernel needs --compile-to" in capsys.readouterr().err
    assert main([str(path), "--substitute", "sum"]) == 2
    assert "write it as" in capsys.readouterr().err


def _with_sequence(file: Path, unroll: int) -> None:
    """Edits a kernel's file so that a named sequence of its own tiles the kernel and leaves a mark."""
    text = file.read_text()
    sequence = f"""  transform.named_sequence @mine(%kernel: !transform.any_op {{transform.readonly}}) {{
    %op = transform.structured.match ops{{["linalg.generic"]}} in %kernel : (!transform.any_op) -> !transform.any_op
    %value = transform.param.constant {unroll} : i64 -> !transform.any_param
    transform.annotate %op "test.mark" = %value : !transform.any_op, !transform.any_param
    transform.yield
  }}
"""
    text = text.replace("module attributes {", "module attributes {transform.with_named_sequence, ", 1)
    text = text.replace("attributes {stepwell.kernel", "attributes {stepwell.schedule = @mine, stepwell.kernel", 1)
    file.write_text(text.replace("  func.func private", f"{sequence}  func.func private", 1))


def test_a_kernel_is_tiled_by_the_named_sequence_in_its_file(path: Path) -> None:
    files = {
        kernel: _written(path, "kernels", kernel).rename(path.with_name(f"{kernel}.mlir")) for kernel in ("soft", "sum")
    }
    for number, file in enumerate(files.values()):
        _with_sequence(file, 5 + number)
    output = path.with_name("tiled.mlir")
    arguments = [str(path), "--compile-to=tiled", "-o", str(output)]
    assert main([*arguments, *(f"--substitute={kernel}=@{file}" for kernel, file in files.items())]) == 0
    text = output.read_text()
    # Both files call their sequence @mine; each kernel is tiled by its own.
    assert "test.mark = 5" in text and "test.mark = 6" in text
    assert text.count('stepwell.schedule = {name = "mine') == 2
    assert "transform.named_sequence" not in text
    for kernel, file in files.items():
        np.testing.assert_allclose(_run(path, kernel, file), stepwell.compile(path, threads=1)(X), rtol=1e-6)
