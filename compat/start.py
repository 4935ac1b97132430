"""Activates the drop-in at interpreter start, if `STEPWELL_DROP_IN=onnxruntime` is in the environment.

The file `stepwell-drop-in.pth`, installed beside the package, imports this module if the variable is set. Child
processes inherit the variable, however they are started, and so run on the drop-in as their parent does. Neither
Stepwell's compiler nor numpy is imported until a program imports onnxruntime.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

VARIABLE = "STEPWELL_DROP_IN"
"""The environment variable: name of the module that Stepwell replaces; empty or 0 for none."""

MODULE = "onnxruntime"


def inherit() -> None:
    """Makes child processes of this one use the drop-in too."""
    os.environ[VARIABLE] = MODULE


def install_lazily() -> None:
    """Makes the first `import onnxruntime` install the drop-in, if the environment says so."""
    value = os.environ.get(VARIABLE, "")
    if value in ("", "0"):
        return
    if value not in (MODULE, "1"):
        warnings.warn(f"{VARIABLE} is '{value}', expected '{MODULE}': no module is replaced", stacklevel=2)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds onnxruntime before all other finders do."""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != MODULE:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """Installs the drop-in before its version is looked up; the drop-in's own finder then answers."""
        if context.name == MODULE and MODULE not in sys.modules:
            importlib.import_module(MODULE)
        return iter(())


class _Loader(importlib.abc.Loader):
    """Loads the drop-in as the imported module."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system returns the module that is in `sys.modules` at the end.
        del sys.modules[module.__name__]
        importlib.import_module("stepwell.compat.onnxruntime").install()


install_lazily()
