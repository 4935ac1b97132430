"""The checkout may lie in a folder of any name: a ZIP's `stepwell-main`, an sdist's `stepwell-0.1.0`, a worktree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Two names that are not identifiers, and the name of a Python module.
NAMES = ("stepwell-0.1.0", "0 step well", "json")
PARTS = ("pyproject.toml", "*.py", "test/conftest.py", "test/lit.cfg.py", "test/tools/opt/pass-pipeline.mlir")


@pytest.mark.parametrize("name", NAMES)
def test_pytest_runs_in_a_folder_of_any_name(name: str, tmp_path: Path) -> None:
    checkout = _copy(tmp_path / name)
    # One test file imports its neighbours relatively, the other nothing.
    (checkout / "test" / "neighbours").mkdir()
    (checkout / "test" / "neighbours" / "helper.py").write_text("VALUE = 1\n")
    (checkout / "test" / "neighbours" / "test_relative.py").write_text(
        "from .helper import VALUE\n\n\ndef test_value() -> None:\n    assert VALUE == 1\n"
    )
    (checkout / "test" / "test_root.py").write_text(
        "import stepwell\n\n\ndef test_version() -> None:\n    assert stepwell.__version__\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "test/neighbours", "test/test_root.py"], cwd=checkout, capture_output=True, text=True
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.sweep
def test_lit_runs_in_a_folder_with_spaces(tmp_path: Path) -> None:
    checkout = _copy(tmp_path / "step well")
    command = [sys.executable, "-c", "import lit.main; lit.main.main()", "-v", "test"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0 and "Passed: 1" in done.stdout, done.stdout + done.stderr


def _copy(checkout: Path) -> Path:
    """Copies the parts of the checkout that these tests need."""
    for pattern in PARTS:
        for path in ROOT.glob(pattern):
            target = checkout / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    return checkout
