"""Number of cores that a process in a container may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stepwell.support import cores


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Replaces the control groups by files; the arguments are the process's own groups, and the files' contents."""

    def lay(own: str, files: dict[str, str]) -> None:
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        cores._quota.cache_clear()

    monkeypatch.setattr(cores, "_CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(cores, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    yield lay
    cores._quota.cache_clear()


@pytest.mark.parametrize(
    ("own", "files", "count"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/a/b\n", {"cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        (
            "4:cpu,cpuacct:/a\n0::/a\n",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "400000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("3:cpuset:/a\n", {"cpuset/a/cpu.cfs_quota_us": "100000", "cpuset/a/cpu.cfs_period_us": "100000"}, 64),
        ("1:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, 64),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 64),
        ("0::/gone\n", {}, 64),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
    ],
)
def test_a_quota_of_time_counts(groups, own: str, files: dict[str, str], count: int) -> None:
    groups(own, files)
    assert cores.available_cores() == count


def test_fewer_cores_than_the_quota(groups, monkeypatch: pytest.MonkeyPatch) -> None:
    groups("0::/\n", {"cpu.max": "800000 100000\n"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 7}, raising=False)
    assert cores.available_cores() == 2
