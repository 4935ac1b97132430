"""The measures of the architecture: a measure out of its bounds is an error."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_a_measure_out_of_bounds_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    measures = importlib.import_module("measures")
    for name in ("_sequences", "_tables", "_groups"):
        monkeypatch.setattr(measures, name, list)
    for name, found in {"_trees": [], "_paths": [], "_cycles": [0, 2, 0]}.items():
        monkeypatch.setattr(measures, name, lambda found=found: found)
    assert measures.main() == 1
    wrong = {line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if "must be" in line}
    assert "modules in import cycles, in functions" in wrong and "tables keyed by op" not in wrong
