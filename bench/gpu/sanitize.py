"""Runs kernels under NVIDIA's compute-sanitizer: accesses out of bounds, shared-memory races, uninitialised reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import worker

_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_ERROR_EXIT_CODE = 9
_TIMEOUT_SECONDS = 240.0


def check(folder: Path, names: Sequence[str]) -> int:
    """Runs cases of a folder under each tool; returns 0 if none finds anything, or there is no compute-sanitizer."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("skipped: there is no compute-sanitizer in PATH")
        return 0
    states = []
    for tool in _TOOLS:
        flags = ["--tool", tool, "--error-exitcode", str(_ERROR_EXIT_CODE)]
        command = [program, *flags, *worker.python(), str(folder), "--worker", *names]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            states.append(False)
            print(f"{tool}: not finished in {_TIMEOUT_SECONDS:.0f} seconds; select fewer cases with --only")
            continue
        states.append(done.returncode == 0)
        print(f"{tool}: {'nothing found' if done.returncode == 0 else f'exit code {done.returncode}'}")
        if done.returncode:
            print("\n".join((done.stdout + done.stderr).splitlines()[-20:]))
    return 0 if all(states) else 1
