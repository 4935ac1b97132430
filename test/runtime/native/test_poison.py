"""Memory is filled with a pattern before native code runs, if requested."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from stepwell.runtime.native import poison


def test_pattern_inside_of_a_block() -> None:
    before = poison.byte
    arrays = [np.zeros((2, 3), np.float32), np.zeros((), np.bool_), np.zeros(0, np.int64)]
    with poison.filled_with(0xFF):
        poison.fill(arrays)
    assert poison.byte == before
    assert np.isnan(arrays[0]).all()
    assert arrays[1].tobytes() == b"\xff"


@pytest.mark.parametrize(("text", "code"), [("", 0), ("ff", 0), ("55", 0), ("100", 1), ("-1", 1), ("on", 1)])
def test_variable(text: str, code: int) -> None:
    environment = {**os.environ, "STEPWELL_POISON": text}
    command = [
        sys.executable,
        "-c",
        "from stepwell.runtime.native import poison; from stepwell.support import environment; environment.check()",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("must be a byte in hexadecimal" in done.stderr) == bool(code)
