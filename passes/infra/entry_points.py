"""Plug-ins: modules of other packages that register what they add, listed under the entry points `stepwell.*`.

This module does not import MLIR.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...support.errors import StepwellWarning
from ...support.warning import warn

ENTRY_POINT_GROUPS = ("stepwell.dialects", "stepwell.interfaces", "stepwell.passes", "stepwell.frontends")
"""The groups of entry points, in the order in which they are loaded. Each names modules that register on import."""


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginWarning(StepwellWarning):
    """An installed plug-in cannot be imported and is left out."""


@functools.cache
def load_entry_points() -> None:
    """Imports the installed plug-ins: the modules that packages list under the entry points of `ENTRY_POINT_GROUPS`.

    Warns:
        PluginWarning: a plug-in cannot be imported; compiles continue without it.
    """
    if not _may_have_entry_points():
        return
    from importlib.metadata import entry_points  # this import takes longer than the rest of most starts

    for group in ENTRY_POINT_GROUPS:
        for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
            _load(entry)


def _load(entry: EntryPoint) -> None:
    try:
        entry.load()
    except (Exception, SystemExit) as error:  # the code of another package may raise anything
        package = entry.dist.name if entry.dist is not None else entry.module
        text = f"the plug-in '{entry.name}' of the package {package} is left out: {type(error).__name__}: {error}"
        warn(text, PluginWarning)


def _may_have_entry_points() -> bool:
    """Returns whether an installed package may declare plug-ins, by searching the `entry_points.txt` files."""
    for folder in dict.fromkeys(sys.path):
        path = Path(folder or ".")
        if path.is_file():
            return True  # an archive, which only importlib.metadata can read
        try:
            infos = [item for item in os.scandir(path) if item.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for info in infos:
            try:
                if b"[stepwell." in Path(info.path, "entry_points.txt").read_bytes():
                    return True
            except OSError:
                continue
    return False
