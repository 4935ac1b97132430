"""Loads an artefact, as a user does, and calls its programs if their interface fits the original code."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import stepwell
from artefact_mutants import original
from stepwell.runtime.program import Program


def run(data: bytes) -> None:
    """Loads an artefact; calls those programs whose interface is that of the code.

    Checksums protect from damage, not from malice: an attacker who can sign a manifest can bring other code as well.

    Raises:
        Exception: any exception of the package.
    """
    executable = _loaded(data)
    for program in executable.programs:
        if _interface(program) not in _interfaces():
            continue
        arrays = {info.name: np.ones([int(dim) for dim in info.shape], info.dtype) for info in program.inputs}
        executable(*arrays.values())


def _loaded(data: bytes) -> stepwell.Executable:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.stw"
        path.write_bytes(data)
        return stepwell.load(path, threads=1)


@functools.cache
def _interfaces() -> frozenset:
    return frozenset(map(_interface, _loaded(original()).programs))


def _interface(program: Program) -> tuple:
    """Returns everything that the native code relies on."""
    parameters = tuple((name, array.shape, array.dtype.name) for name, array in program.parameters.items())
    code = program.library or tuple(sorted(program.objects.values()))
    return program.inputs, program.outputs, program.guards, program.arena_bytes, parameters, code
