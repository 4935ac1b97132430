"""Random programs of the dialect (test/fuzz), compiled for AArch64 and run under the emulator."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from stepwell.runtime.compiled_model import CompiledModel

from . import harness

pytestmark = pytest.mark.skipif(not harness.is_available(), reason=harness.INSTALL)

GRAPHS = int(os.environ.get("STEPWELL_TEST_ARM_GRAPHS", "12"))
FUZZ = Path(__file__).parent.parent / "fuzz"


def executable(model: CompiledModel, *, threads: int) -> Callable[..., tuple[np.ndarray, ...]]:
    (program,) = model.programs
    return lambda *arrays: tuple(harness.run_program(program, arrays, threads=threads))


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_levels_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FUZZ))
    graph_target = importlib.import_module("graph_target")
    monkeypatch.setattr(graph_target, "Executable", executable)
    graph_target.check(seed, {"AArch64": ("aarch64", ())})
