"""Packages that add families of targets, listed under the entry points `stepwell.targets`.

The name of an entry point is the family. Its value is a module with the functions `backend`, which returns the code
generator, and `loader`, which returns the loader of programs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...support.errors import StepwellWarning
from ...support.warning import warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "stepwell.targets"
BUILT_IN = ("cpu", "x86_64", "aarch64", "cuda")


class TargetClashWarning(StepwellWarning):
    """Two packages add targets of one family, and both are left out."""


@dataclass(frozen=True)
class TargetPackage:
    """A package that adds a family of targets.

    Attributes:
        family: the family, the part of its targets' names before the colon.
        package: the name of the installed package.
        entry: the entry point.
    """

    family: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Imports the module of the entry point, which may raise anything."""
        module: ModuleType = self.entry.load()
        return module


@functools.cache
def packages() -> Mapping[str, TargetPackage]:
    """Returns the installed packages by family, without importing them.

    Warns:
        TargetClashWarning: a family is built in, or added by two packages.
    """
    from importlib.metadata import entry_points  # takes longer than the rest of most starts

    found: dict[str, list[TargetPackage]] = {}
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist is not None else entry.module
        found.setdefault(entry.name, []).append(TargetPackage(entry.name, package, entry))
    kept = {}
    for family, items in found.items():
        names = sorted({item.package for item in items})
        if family in BUILT_IN:
            warn(f"{names[0]}: the targets '{family}' are built in", TargetClashWarning)
        elif len(names) > 1:
            text = f"the packages {' and '.join(names)} both add targets '{family}', and both are left out"
            warn(text, TargetClashWarning)
        else:
            kept[family] = items[0]
    return kept
