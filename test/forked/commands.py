"""Starts the server, and provides a folder with the installed commands that run in it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

_FOLDER = Path(__file__).parent
_START_SECONDS = 120


@cache
def environment() -> dict[str, str]:
    """Returns environment variables with which commands run in the server: PATH, and the server's socket.

    The server starts at the first call, and ends with this process.
    """
    folder = Path(tempfile.mkdtemp(prefix="stepwell-commands-"))
    server = folder / "socket"
    reading, _ = os.pipe()  # the other end is closed when this process ends
    command = [sys.executable, str(_FOLDER / "server.py"), str(server)]
    process = os.posix_spawn(sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)])
    os.close(reading)
    commands = [item.name for item in entry_points(group="console_scripts") if item.value.startswith("stepwell.")]
    for name in [*commands, "python"]:
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{_FOLDER / "client.py"}" {name} "$@"\n')
        script.chmod(0o755)
    end = time.monotonic() + _START_SECONDS
    while not server.exists():
        if os.waitpid(process, os.WNOHANG)[0] or time.monotonic() > end:
            raise RuntimeError("the server of commands has not started")
        time.sleep(0.05)
    return {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]]), "STEPWELL_TEST_SERVER": str(server)}
