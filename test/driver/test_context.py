"""The dialects that the context of a compile loads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mlir.dialects
import pytest
import stepwell
from stepwell.driver.caching import plugins
from stepwell.driver.context import DIALECTS, compiler_context

ROOT = Path(stepwell.__file__).parent
ROOMS = ("compat", "dialects", "driver", "explain", "frontend", "lowering", "passes", "targets", "tools")
UPSTREAM = {path.stem for path in Path(mlir.dialects.__path__[0]).glob("[a-z]*.py")}


@pytest.mark.sweep
def test_dialects_whose_ops_the_compiler_builds_are_loaded() -> None:
    """An op of a dialect that is not loaded would end the process."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    built = {name: path.name for path in paths for name in _dialects_in(path)}
    # The parser loads `transform`, whose ops are only read.
    assert sorted(built.keys() - {"transform"} - {*DIALECTS}) == []
    assert len(built) > 10


def _dialects_in(path: Path) -> Iterator[str]:
    """Yields the upstream dialects whose bindings a file imports, and those of ops that it creates by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "mlir.dialects":
            yield from (alias.name for alias in node.names if alias.name in UPSTREAM)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("mlir.dialects."):
            yield (node.module or "").split(".")[2]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "create":
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and str(argument.value).partition(".")[0] in UPSTREAM:
                    yield str(argument.value).partition(".")[0]


def test_other_dialects_are_loaded_for_code_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with compiler_context() as context:
        assert context.is_registered_operation("arith.addf")
        assert not context.is_registered_operation("tosa.abs")
    with compiler_context(loads_all=True) as context:
        assert context.is_registered_operation("tosa.abs")
    monkeypatch.setattr(plugins, "are_found", lambda: True)
    with compiler_context() as context:
        assert context.is_registered_operation("tosa.abs")
