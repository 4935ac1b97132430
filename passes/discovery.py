"""Finds every pass there is: those of `stepwell.passes` and `stepwell.lowering`, and those of other packages.

Another package names the modules that register its passes in its `pyproject.toml`:

    [project.entry-points."stepwell.passes"]
    my-passes = "my_package.my_passes"

A module that is not installed is loaded by `load_plugin`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .base import Pass, registry

ENTRY_POINT_GROUP = "stepwell.passes"
_ROOT = Path(__file__).parent.parent
_PACKAGE = __name__.split(".")[0]


def find_pass(name: str) -> type[Pass] | None:
    """The Python pass called `name`, or None. Only the modules in whose text the name stands are imported."""
    if name not in registry() and name in _index():
        importlib.import_module(_index()[name])
    if name not in registry():
        _import_plugins()
    return registry().get(name)


def pass_names() -> list[str]:
    """The names of all Python passes."""
    _import_plugins()
    return sorted({*_index(), *registry()})


@cache
def all_passes() -> dict[str, type[Pass]]:
    """Every Python pass by name, those of plugins included."""
    for module in _index().values():
        importlib.import_module(module)
    _import_plugins()
    return registry()


@cache
def _index() -> dict[str, str]:
    """The module of every pass, read from the source texts: importing them all takes much longer."""
    return {
        name: _module_name(path)
        for path in _source_files()
        for name in re.findall(r'^    name = "([\w-]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _source_files() -> Iterator[Path]:
    for folder in ("passes", "lowering"):
        yield from sorted((_ROOT / folder).rglob("*.py"))


def _module_name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join([_PACKAGE, *(part for part in parts if part != "__init__")])


def load_plugin(name: str) -> None:
    """Imports a module that registers passes, given by its name or as the path of a `.py` file.

    Raises:
        ImportError: there is no such module.
    """
    if not name.endswith(".py"):
        importlib.import_module(name)
        return
    spec = spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None or not Path(name).exists():
        raise ImportError(f"no file '{name}'")
    module = module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


@cache
def _import_plugins() -> None:
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        entry.load()
