"""The refit of the cost function: it finds figures under which the chosen schedules are the fastest ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from stepwell.lowering.linalg_to_vector.spaces.space import Axis, SearchSpace, SpaceChoice
from stepwell.machines.families import FAMILIES
from stepwell.machines.names import with_figures
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.devices import figures
from stepwell.tuning import refit as refits
from stepwell.tuning.database import Conditions, Trial
from stepwell.tuning.errors import TuningError
from stepwell.tuning.refit import refit, refit_kernels

KNOWN = FAMILIES["zen3"]
TRUE = with_figures(KNOWN, {"l2_rate": KNOWN.l2_rate / 4}, "true")
TILES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Streams(SearchSpace):
    """A kernel whose larger tiles read less from the second-level cache, and compute more."""

    work: float = 1.0

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        return self.changed({name: value for name, value in choice.items() if value is not None})

    def features(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        return {"tile": float(self.complete(parameters)["tile"])}

    def predicted(self, parameters: Mapping[str, Any]) -> float | None:
        tile = self.complete(parameters)["tile"]
        return 1e4 * self.work / tile / self.machine.l2_rate + 20 * tile


def space(work: float) -> Streams:
    """A kernel with the schedule that is the fastest by the known figures."""
    made = Streams(KNOWN, {"tile": 1}, (Axis.of("tile", TILES),), work)
    best = min(TILES, key=lambda tile: made.predicted({"tile": tile}))
    return Streams(KNOWN, {"tile": best}, made.axes, work)


SPACES = {f"kernel_{number}": space(0.5 + number / 4) for number in range(8)}


def trials(certainty: float = 0.01) -> list[Trial]:
    """Times by the true figures."""
    found = []
    for name, known in SPACES.items():
        true = known.on(TRUE)
        for tile in TILES:
            gain = true.predicted({}) / true.predicted({"tile": tile})
            low, high = gain - certainty, gain + certainty
            if tile != known.default["tile"]:
                found.append(Trial(name, Conditions("", "", 1), {"tile": tile}, gain=gain, low=low, high=high))
    return found


def test_the_figures_that_trials_show_close_the_gap_also_of_other_kernels() -> None:
    found = refit(refit_kernels(SPACES, trials()))
    assert found.before > 1.1 and found.after < 1.02 and found.left_out < 1.05 and found.is_better
    assert found.kernels == 8 and found.trials == 32
    assert math.isclose(found.figures["l2_rate"], TRUE.l2_rate, rel_tol=0.5)


def test_gains_that_may_be_luck_change_nothing() -> None:
    found = refit(refit_kernels(SPACES, trials(certainty=10.0)))
    assert found.figures == {} and not found.is_better and found.before == found.after == 1.0


def test_few_kernels_are_no_evidence() -> None:
    few = refit_kernels({"kernel_0": SPACES["kernel_0"]}, trials())
    with pytest.raises(TuningError, match="1 kernel with 4 trials or more, but a refit needs 4"):
        refit(few)


def test_fitted_figures_are_kept_beside_measured_ones(tmp_path, monkeypatch) -> None:
    cache = Cache(tmp_path)
    monkeypatch.setattr(refits, "default_cache", lambda: cache)
    figures.keep(figures.MachineFigures({"memory_rate": 1.25, "l2_rate": 10.0}), cache)
    try:
        found = refit(refit_kernels(SPACES, trials()))
        assert refits.keep_figures(found)
        assert figures.kept(cache) == {"memory_rate": 1.25, **found.figures}
    finally:
        figures.figures.cache_clear()
