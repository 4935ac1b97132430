"""Modules with wrong attributes or parameters: each ends in one clear error."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import stepwell
from mlir import ir
from safetensors.numpy import save_file
from stepwell.dialects.registry import load_dialects
from stepwell.frontend.errors import ModelError

MODEL = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 8, 3>, dtype = f32} : () -> tensor<8x3xf32>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""
WEIGHT = np.arange(24, dtype=np.float32).reshape(8, 3)
OPTIONS = stepwell.Options(cache=False)


@pytest.fixture(scope="module")
def phases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model at each phase, with its parameters beside it."""
    found: dict[str, Path] = {}
    root = tmp_path_factory.mktemp("phases")

    def reached(phase: str, module: ir.Module, parameters: dict[str, np.ndarray]) -> None:
        path = root / phase / "model.mlir"
        path.parent.mkdir()
        module.operation.attributes["stepwell.phase"] = ir.StringAttr.get(phase, module.context)
        path.write_text(str(module))
        save_file(dict(parameters), path.with_name("parameters.safetensors"))
        found[phase] = path

    (root / "model.mlir").write_text(MODEL)
    save_file({"w": WEIGHT}, root / "parameters.safetensors")
    options = stepwell.Options(cache=False, reached=reached)
    stepwell.compile(root / "model.mlir", threads=1, options=options)
    return found


def changed(path: Path, folder: Path, name: str, text: str) -> Path:
    """Returns a copy of a module with another attribute, or without it if the text is empty."""
    with ir.Context() as context:
        load_dialects(context)
        module = ir.Module.parse(path.read_text())
        if text:
            module.operation.attributes[name] = ir.Attribute.parse(text)
        else:
            del module.operation.attributes[name]
        (folder / path.name).write_text(str(module))
    parameters = "parameters.safetensors"
    (folder / parameters).write_bytes(path.with_name(parameters).read_bytes())
    return folder / path.name


@pytest.mark.parametrize("phase", ["import", "graph", "kernels", "tiled", "memref", "llvm"])
def test_every_phase_is_read_back(phases: dict[str, Path], phase: str) -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    run = stepwell.compile(phases[phase], threads=1, options=OPTIONS)
    np.testing.assert_allclose(run(x), x @ WEIGHT, rtol=1e-4)


@pytest.mark.few(8)
@pytest.mark.parametrize("phase", ["import", "graph", "kernels", "vector", "memref", "llvm"])
@pytest.mark.parametrize(
    ("array", "message"),
    [
        (None, "there are no contents for the parameter '"),
        (np.ones((2, 3), np.float32), "but its contents are 2x3xf32"),
        (np.ones(1 << 16, np.float64), "but its contents are 65536xf64"),
    ],
)
def test_parameters_that_are_not_there(
    phases: dict[str, Path], tmp_path: Path, phase: str, array: np.ndarray | None, message: str
) -> None:
    """Without the check, they were read beyond their ends."""
    path = tmp_path / "model.mlir"
    path.write_text(phases[phase].read_text())
    if array is not None:
        read = re.findall(r'name = "(w[^"]*)"', path.read_text())
        save_file(dict.fromkeys(read, array), tmp_path / "parameters.safetensors")
    with pytest.raises(ModelError, match=message) as caught:
        stepwell.compile(path, options=OPTIONS)
    assert caught.value.model == "model.mlir"


@pytest.mark.parametrize(
    ("phase", "name", "text", "message"),
    [
        (
            "kernels",
            "stepwell.interface",
            "",
            "declares the phase 'kernels', but has no attribute 'stepwell.interface'",
        ),
        ("kernels", "stepwell.interface", "5", "'stepwell.interface' must be a dictionary"),
        ("tiled", "stepwell.interface", "{inputs = [{}], outputs = [], guards = []}", "must be inputs and outputs"),
        (
            "tiled",
            "stepwell.interface",
            "{inputs = [], outputs = [], guards = [], counts = []}",
            "does not match the module's attributes",
        ),
        (
            "memref",
            "stepwell.interface",
            "{inputs = [], outputs = [], guards = [], counts = []}",
            "does not match the module's attributes",
        ),
        ("memref", "stepwell.parameters", "[]", "does not match the module's attributes"),
        ("memref", "stepwell.parameters", "[5]", "must be a list of dictionaries"),
        ("memref", "stepwell.parameters", "[{}]", "must be a list of names and types of tensors"),
        ("llvm", "stepwell.parameters", "", "but has no attribute 'stepwell.parameters'"),
        ("llvm", "stepwell.arena_bytes", "-1", "must be a number of bytes"),
        ("llvm", "stepwell.lifetimes", "[{}]", "must be a list of buffers"),
        ("llvm", "stepwell.phase", "", "@main must be a function with a body"),
        ("graph", "stepwell.table", "[]", "bound to ranges of sizes"),
    ],
)
def test_notes_that_cannot_be_true(
    phases: dict[str, Path], tmp_path: Path, phase: str, name: str, text: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        stepwell.compile(changed(phases[phase], tmp_path, name, text), options=OPTIONS)


def test_init_computes_without_loops() -> None:
    """An endless loop would have been run."""
    text = """func.func @init() {
      %true = arith.constant true
      scf.while : () -> () { scf.condition(%true) } do { scf.yield }
      return
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"""
    with pytest.raises(ModelError, match="@init may only contain ops of the stepwell dialect"):
        stepwell.compile(text.encode(), options=OPTIONS)
