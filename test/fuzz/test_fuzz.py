"""A short run over mutants of every kind; `make fuzz` starts a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


COUNTS = {"onnx": 6, "mlir": 8, "artefact": 12, "graph": 4, "ranges": 3, "symbols": 3}
PARTS = 12


# In each run, files of one kind; in the sweep, of all.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.sweep] if kind != "onnx" else []) for kind in COUNTS]
)
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.sweep) for part in range(1, PARTS))])
def test_nothing_in_a_file_crashes(kind: str, part: int) -> None:
    count = COUNTS[kind]
    command = [sys.executable, str(RUN), kind, "--count", str(count), "--first", str(part * count), "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.sweep
def test_crashes_are_found(tmp_path: Path) -> None:
    """Tests the supervisor: mutants that end the process, hang or raise are distinguished from refused ones."""
    for name in ("run.py", "worker.py"):
        (tmp_path / name).write_text(RUN.with_name(name).read_text())
    (tmp_path / "onnx_mutants.py").write_text("def mutant(number):\n    return bytes([number])\n")
    target = """
import os, stepwell
def run(data):
    if data[0] == 1: os.abort()
    if data[0] == 2: raise KeyError("x")
    while data[0] == 3: pass
    if data[0] == 4: raise stepwell.InputError("no")
"""
    (tmp_path / "onnx_target.py").write_text(target)
    command = [sys.executable, str(tmp_path / "run.py"), "onnx", "--count", "6", "--jobs", "1", "--seconds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "mutant 1: the process ended with -6" in done.stdout
    assert "KeyError: 'x'" in done.stdout
    assert "computed for more than 3 s" in done.stdout
    assert "{'failed': 3, 'ran': 2, 'refused: InputError': 1}" in done.stdout
