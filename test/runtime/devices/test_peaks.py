"""The machine's peaks are measured once, and stored unless other processes disturbed the measurement."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.devices import peaks
from stepwell.runtime.devices.peaks import Peaks

CURVE = [(1.0, 1e10), (1e9, 1e10)]


@pytest.mark.parametrize("is_disturbed", [True, False])
def test_disturbed_figures_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_disturbed: bool) -> None:
    made = Peaks(1, 1e11, CURVE, CURVE, is_disturbed)
    calls: list[int] = []

    def measure(cpus: list[int], bytes_per_go: float) -> Peaks:
        calls.append(len(cpus))
        return made

    monkeypatch.setattr(peaks, "measure", measure)
    cache = Cache(tmp_path)
    assert [peaks.known(1, cache) for _ in range(2)] == [made, made]
    assert len(calls) == (2 if is_disturbed else 1)
    assert (peaks.kept(1, cache) is None) == is_disturbed


@pytest.mark.sweep
@pytest.mark.parametrize(("others", "is_disturbed"), [(0.0, False), (100.0, True)])
def test_work_of_other_processes_disturbs(monkeypatch: pytest.MonkeyPatch, others: float, is_disturbed: bool) -> None:
    used = iter([0.0, others])
    monkeypatch.setattr(peaks, "used_by_others", lambda: next(used))
    assert peaks.measure(peaks._cpus()[:1], 1e5).is_disturbed == is_disturbed


def test_better_of_two() -> None:
    low, high = Peaks(1, 1e10, CURVE, CURVE, True), Peaks(1, 1e11, CURVE, CURVE)
    assert low.better(high) == high
    assert low.better(low).is_disturbed
