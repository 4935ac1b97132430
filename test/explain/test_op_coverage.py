"""The table of ops and interfaces is pinned: new ops show their missing parts, lost rules show as a difference."""

from __future__ import annotations

import subprocess
from pathlib import Path

EXPECTED = Path(__file__).with_name("op_coverage.txt")


def test_coverage_is_as_written_down():
    """To update after a change of ops or interfaces: `stepwell-opt --op-coverage > test/explain/op_coverage.txt`."""
    done = subprocess.run(["stepwell-opt", "--op-coverage"], capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED.read_text()
