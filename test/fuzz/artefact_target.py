"""What a user does with an artefact: loads it and, where its code is said to be what it is, calls it."""

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

    Checksums protect from damage, not from malice: who can sign a manifest of other sizes can bring other code as well.

    Raises:
        Exception: whatever the package raises.
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
    """What the native code relies on."""
    parameters = tuple((name, array.shape, array.dtype.name) for name, array in program.parameters.items())
    code = program.library or tuple(sorted(program.objects.values()))
    return program.inputs, program.outputs, program.guards, program.arena_bytes, parameters, code
