"""Random programs of the dialect (test/fuzz), compiled for AArch64 and run under the emulator."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from stepwell.runtime.program import Program, TensorInfo

from . import harness

pytestmark = pytest.mark.skipif(not harness.is_available(), reason=harness.INSTALL)

GRAPHS = int(os.environ.get("STEPWELL_TEST_ARM_GRAPHS", "12"))
FUZZ = Path(__file__).parent.parent / "fuzz"


def executable(
    inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], programs: Sequence[Program], *, threads: int
) -> Callable[..., tuple[np.ndarray, ...]]:
    return lambda *arrays: tuple(harness.run_program(programs[0], arrays, threads=threads))


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_levels_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FUZZ))
    graph_target = importlib.import_module("graph_target")
    monkeypatch.setattr(graph_target, "Executable", executable)
    graph_target.check(seed, {"AArch64": ("aarch64", ())})
