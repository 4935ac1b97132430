"""The search for cycles of imports: the kinds of imports that it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import cycles

FILES = {
    "stepwell": ("__init__.py", ""),
    "stepwell.a": ("a.py", "from . import b"),
    "stepwell.b": ("b.py", "def f():\n    from .c.d import name"),
    "stepwell.c": ("c/__init__.py", ""),
    "stepwell.c.d": ("c/d.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stepwell.a import X"),
    "stepwell.e": ("e.py", "import stepwell.a"),
}


@pytest.mark.parametrize(("kinds", "found"), [(1, []), (2, []), (3, [["stepwell.a", "stepwell.b", "stepwell.c.d"]])])
def test_imports_for_types_and_in_functions_close_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: int, found: list[list[str]]
) -> None:
    monkeypatch.setattr(cycles, "ROOT", tmp_path)
    for name, text in FILES.values():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = cycles.import_graph({name: Path(path) for name, (path, _) in FILES.items()}, kinds)
    assert cycles.cycles(graph) == found
