"""The processes that systems run in: pinned, stopped between turns, and unaffected by failures in one of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from stepwell.bench import kernels, turns
from stepwell.bench.machine import cores
from stepwell.bench.peers import Job


def job(folder: Path, name: str = "mul 1x128x384") -> Job:
    case = kernels.table()[name]
    return Job(name, case.write(folder), case.arrays(), 1, folder)


def test_a_worker_is_pinned() -> None:
    with turns.pinned(1) as worker:
        assert worker.ask("run", "os", "sched_getaffinity", 0) == {cores()[0]}
        assert worker.ask("run", "os", "getenv", "OMP_NUM_THREADS") == "1"


def test_workers_load_the_plugins_of_the_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, loaded = tmp_path / "plugin.py", tmp_path / "loaded"
    plugin.write_text(f"import os; open({str(loaded)!r}, 'w').write(str(os.getpid()))")
    monkeypatch.setattr(turns, "LOADED", [str(plugin)])
    with turns.pinned(1) as worker:
        assert not loaded.exists()
        pid = worker.ask("run", "os", "getpid")
        assert loaded.read_text() == str(pid)


def test_a_worker_is_stopped_between_its_turns() -> None:
    with turns.pinned(1) as worker:
        pid = worker.ask("run", "os", "getpid")
        state = Path(f"/proc/{pid}/stat")
        deadline = time.monotonic() + 5
        while state.read_text().split()[2] != "T":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert worker.ask("run", "os", "getpid") == pid
    assert not Path(f"/proc/{pid}").exists()


def test_turns_are_timed(tmp_path: Path) -> None:
    with turns.pinned(1) as worker:
        start = worker.ask("open", "numpy", job(tmp_path))
        x, z = job(tmp_path).inputs.values()
        np.testing.assert_array_equal(start.outputs[0], x * z)
        times: dict[str, list[float]] = {"numpy": []}
        assert turns.take_turns({"numpy": worker}, 0.001, times) == {}
        assert times["numpy"] and min(times["numpy"]) > 0
        assert worker.ask("memory") >= 0
        assert worker.ask("throughput", 2, 0.001) > 0


def test_the_peak_right_after_calls_is_measured(tmp_path: Path) -> None:
    with turns.pinned(1) as worker:
        worker.ask("open", "numpy", job(tmp_path))
        assert worker.ask("peak_then", 0.001) > 1e8


def test_an_exception_of_a_system_is_the_reason(tmp_path: Path) -> None:
    with turns.pinned(1) as worker:
        with pytest.raises(turns.SystemFailure, match="numpy has no such function"):
            worker.ask("open", "numpy", job(tmp_path, "gelu 1x128x1536"))
        assert worker.is_idle
        assert worker.ask("open", "numpy", job(tmp_path)).outputs


def test_a_process_that_ends_is_a_reason() -> None:
    with turns.pinned(1) as worker, pytest.raises(turns.SystemFailure, match="ended by SIGABRT"):
        worker.ask("run", "os", "abort")
    with turns.pinned(1) as worker, pytest.raises(turns.SystemFailure, match="exit code 3"):
        worker.ask("run", "os", "_exit", 3)


def test_a_process_that_hangs_is_a_reason() -> None:
    with turns.pinned(1) as worker:
        with pytest.raises(turns.SystemFailure, match=r"no answer within 0 s"):
            worker.ask("run", "time", "sleep", 60, timeout=0.1)
        assert not worker.is_idle


def test_a_take_that_fails_leaves_the_others(tmp_path: Path) -> None:
    with turns.pinned(1) as good, turns.pinned(1) as bad:
        good.ask("open", "numpy", job(tmp_path))
        times: dict[str, list[float]] = {"good": [], "bad": []}
        reasons = turns.take_turns({"bad": bad, "good": good}, 0.001, times)
        assert "IndexError" in reasons["bad"]
        assert times["good"]


def test_it_runs_on_this_machine_s_cores() -> None:
    assert set(cores()) <= os.sched_getaffinity(0)
