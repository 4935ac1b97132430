"""Finds all passes: those of the rooms `passes`, `lowering` and `targets`, and those of other packages.

The pass `stepwell-form-kernels` is defined in a file `form_kernels.py`.

Another package names the modules that register its passes in its `pyproject.toml`:

    [project.entry-points."stepwell.passes"]
    my-passes = "my_package.my_passes"

`load_plugin` loads a module that is not installed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .base import Pass, registry
from .entry_points import load_entry_points
from .upstream import anchor_of

_ROOT = Path(__file__).parents[2]
_PACKAGE = __name__.split(".")[0]


def find_pass(name: str) -> type[Pass] | None:
    """The Python pass called `name`, or None. Imports no module of another built-in pass.

    Plug-ins are not searched for the name of an upstream pass: pipelines of such passes are made while modules of the
    compiler are being imported, and a plug-in may need these modules.
    """
    if name not in registry() and _stem(name) in _files():
        importlib.import_module(_module_name(_files()[_stem(name)]))
    if name not in registry() and anchor_of(name) is None:
        load_entry_points()
    return registry().get(name)


def pass_names() -> list[str]:
    """The names of all Python passes."""
    load_entry_points()
    return sorted({*_index(), *registry()})


@cache
def all_passes() -> dict[str, type[Pass]]:
    """Every Python pass by name, including those of plug-ins."""
    for module in _index().values():
        importlib.import_module(module)
    load_entry_points()
    return registry()


@cache
def _index() -> dict[str, str]:
    """The module of every pass, read from the source text, because importing all modules takes much longer."""
    return {
        name: _module_name(path)
        for path in _files().values()
        for name in re.findall(r'^    name = "([\w-]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
        if _stem(name) == path.stem
    }


@cache
def _files() -> dict[str, Path]:
    """The files that may define passes, by file name."""
    folders = [parent for name in ("passes", "lowering", "targets") for parent in sorted(os.walk(_ROOT / name))]
    return {name[:-3]: Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")}


def _stem(name: str) -> str:
    return name.removeprefix(f"{_PACKAGE}-").replace("-", "_")


def _module_name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join([_PACKAGE, *(part for part in parts if part != "__init__")])


LOADED: list[str] = []
"""The modules and absolute paths of files that `load_plugin` has imported, for processes that compile alike."""


def load_plugin(name: str) -> None:
    """Imports a module that registers passes, given by its name or as the path of a `.py` file.

    Raises:
        ImportError: there is no such module.
    """
    if name.endswith(".py"):
        _load_file(Path(name).absolute())
    else:
        importlib.import_module(name)
    LOADED.append(str(Path(name).absolute()) if name.endswith(".py") else name)


def _load_file(path: Path) -> None:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"no file '{path}'")
    module = module_from_spec(spec)
    # Dataclasses look up their module by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
