"""Messages about packages that are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import stepwell
from stepwell.support import packages
from stepwell.support.packages import MissingPackageError


def test_a_missing_package_is_named_with_a_command_that_works() -> None:
    packages.require_package("numpy", "this test", "test")
    with pytest.raises(
        MissingPackageError, match=r"a dream: needs the package no_such_thing: run `pip install '.\[x\]'"
    ):
        packages.require_package("no_such_thing", "a dream", "x")
    assert issubclass(MissingPackageError, stepwell.StepwellError) and issubclass(MissingPackageError, ImportError)


def test_no_hint_installs_stepwell_from_an_index() -> None:
    root = Path(packages.__file__).parents[1]
    product = [path for path in root.glob("[a-z]*/**/*.py") if path.relative_to(root).parts[0] != "test"]
    assert len(product) > 500
    assert not [path for path in product if "install 'stepwell" in path.read_text(encoding="utf-8")]


def test_files_of_llvm_are_found_or_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages.llvm_file("lib/libLLVM.so").is_file()
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingPackageError, match=r"distribution/runtime\[profile\]"):
        packages.llvm_file("lib/libLLVM.so")
