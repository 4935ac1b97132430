"""The demonstration: its output, and its message if a package is missing."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType

import pytest

tomllib = pytest.importorskip("tomllib") if sys.version_info >= (3, 11) else pytest.importorskip("tomli")
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("ocr_demo", ROOT / "examples" / "ocr_demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ocr_demo", module)
    spec.loader.exec_module(module)
    return module


def test_tables_fit_into_eighty_columns(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [([[0.0, 0.0]] * 4, " ".join(text.split()), 0.987654) for text, _, _ in demo.TEXT]
    slow = demo.Reading(lines, dict.fromkeys(demo.MODELS, 99.9), dict.fromkeys(demo.MODELS, 9.99))
    other = demo.Reading(lines[1:], slow.first, slow.run)
    demo.report(slow, slow, other, argparse.Namespace(threads=16, output="build/ocr_demo.png"))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= 17 and max(map(len, printed)) <= 80
    # Each line of recognised text takes one line of the table, and so does each model.
    assert [line for line in printed if re.search(r" yes +(yes|no) +0\.98\d\d$", line)] == printed[2:8]
    assert re.search(r"no +0\.98", printed[2]) and not re.search(r"no +0\.98", printed[3])
    assert [line for line in printed if line.endswith("1.00")] == printed[11:14]


@pytest.mark.parametrize("package", ["PIL", "cv2", "rapidocr_onnxruntime"])
def test_missing_packages_are_reported(demo: ModuleType, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "onnxruntime", "cv2", "rapidocr_onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None if name == package else ModuleType(name))
    assert "pip install '.[demo]'" in demo.missing_packages()
    assert f" {package} is missing" in demo.missing_packages()
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    assert demo.missing_packages() == ""


def test_the_extra_brings_all_that_rapidocr_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {_name(text) for text in project["optional-dependencies"]["demo"] + project["dependencies"]}
    try:
        needed = {_name(text) for text in requires("rapidocr-onnxruntime") or []}
    except PackageNotFoundError:
        pytest.skip("RapidOCR is one of the packages of requirements-models.txt")
    assert needed and needed | {"rapidocr-onnxruntime"} <= named


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement.strip())[0].lower().replace("_", "-")
