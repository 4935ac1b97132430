"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from stepwell.support.heap import release_free_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

kept = [bytes(60_000) for _ in range(1000)]
pins = kept[::20]
full = resident()
del kept
assert release_free_memory()
assert full - resident() > 30_000_000, (full, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_small_blocks_between_others_are_released() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
