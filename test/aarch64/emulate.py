"""Pytest plugin: `cpu` stands for AArch64, and compiled code runs under the emulator (`pytest -p aarch64.emulate`).

STEPWELL_TEST_ARM names another target than `aarch64` and, after a comma, the emulator's processor:
`aarch64:neoverse-v1,max,sve256=on`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest
from stepwell.lowering.target import Target
from stepwell.runtime import processor
from stepwell.runtime.artefact import linker
from stepwell.runtime.execution import ranged_call
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace, status_of
from stepwell.runtime.native import loader
from stepwell.runtime.program import Program

from . import harness

TARGET, _, _CPU = os.environ.get("STEPWELL_TEST_ARM", "aarch64").partition(",")
CPU = _CPU or "max"


class _NoCode:
    """Code of a program that runs in another process."""

    def address(self, symbol: str) -> int:
        pytest.skip(f"calls {symbol} in this process")


def pytest_configure(config: pytest.Config) -> None:
    """Redirects compiles for this machine, and calls."""
    if not harness.is_available():
        raise pytest.UsageError(harness.INSTALL)
    Target.host = staticmethod(lambda: Target.parse(TARGET))
    processor.architecture = lambda: "aarch64"
    processor.features = lambda: None
    linker.link = lambda objects, target: None
    loader.load = _load
    Workspace.run = _run
    Workspace.run_at = _run_at
    ranged_call.addresses = list  # which would hide the arrays from `run_at`


def _load(program: Program, symbols: Mapping[str, int] = MappingProxyType({})) -> loader.NativeCode:
    assert not symbols, "functions of this process cannot be called"
    return loader.NativeCode(_NoCode().address, _NoCode())


def _run(
    self: Workspace, loaded: LoadedProgram, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
) -> Sequence[np.ndarray]:
    return _run_at(self, loaded, [*inputs, *outputs], threads)


def _run_at(
    self: Workspace, loaded: LoadedProgram, places: Sequence[np.ndarray | int], threads: int
) -> Sequence[np.ndarray]:
    arrays = [place for place in places if isinstance(place, np.ndarray)]
    if len(arrays) < len(places):
        pytest.skip("calls with addresses in this process")
    status, count = status_of(loaded.program), len(loaded.program.inputs)
    harness.call(loaded.program, arrays[:count], arrays[count:], status, threads, CPU)
    return status
