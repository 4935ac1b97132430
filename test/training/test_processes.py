"""Training by several processes equals that by one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("rank.py")
SECONDS = 300


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(folder: Path, kind: str, model: str, size: int) -> list[dict[str, Any]]:
    """The results of the processes, by rank."""
    command, base = [sys.executable, str(SCRIPT), kind, model], dict(os.environ)
    base |= {"STEPWELL_TEST_RESULT": str(folder / f"{kind}-{size}"), "OMP_NUM_THREADS": "1"}
    if kind == "gloo":
        base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    each = [{"RANK": str(rank)} for rank in range(size)]
    if kind == "mpi":
        command, each = [_mpiexec(), "-n", str(size), *command], [{}]
    running = [
        subprocess.Popen(command, env=base | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for own in each
    ]
    try:
        for process in running:
            output, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, output
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [json.loads((folder / f"{kind}-{size}.{rank}").read_text()) for rank in range(size)]


def _mpiexec() -> str:
    """The launcher beside this Python, or on the path; without one, the test is skipped."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if importlib.util.find_spec("mpi4py") is None or found is None:
        pytest.skip("mpi4py or an MPI launcher is not installed")
    return found


def needs(kind: str) -> None:
    if kind == "mpi":
        _mpiexec()
    elif importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["gloo", "mpi"])
def test_processes_take_the_steps_of_one(kind: str, tmp_path) -> None:
    needs(kind)
    (alone,) = run(tmp_path, "none", "mlp", 1)
    for size in (2, 4):
        found = run(tmp_path, kind, "mlp", size)
        assert [item["rank"] for item in found] == list(range(size))
        # The first weights are those of process 0, all states are equal, and losses are those of all batches.
        assert len({item["state"] for item in found}) == 1
        assert all(item["losses"] == found[0]["losses"] for item in found)
        np.testing.assert_allclose(found[0]["losses"], alone["losses"], rtol=1e-5)
        for name, array in alone["weights"].items():
            np.testing.assert_allclose(found[0]["weights"][name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.sweep
def test_processes_share_statistics_but_not_random_choices(tmp_path) -> None:
    needs("gloo")
    first, second = run(tmp_path, "gloo", "torch", 2)
    assert first["state"] == second["state"]
    assert first["losses"] == second["losses"]
    assert first["outputs"] != second["outputs"]
    again, _ = run(tmp_path, "gloo", "torch", 2)
    assert again == first
