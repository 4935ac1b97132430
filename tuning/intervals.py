"""Confidence in ratios of times that were measured in turns, on a machine that also does other work.

Other work only ever adds time, to some calls much and to others nothing. So a time is the lower quartile of all turns,
which a few disturbed turns do not move, and an interval comes from drawing the turns anew (bootstrap), which needs no
assumption on the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
"""Share of intervals that contain the ratio: the usual convention."""
# The lower quartile, and bootstrap samples of an interval: a choice between exact ends and time after each turn.
_QUANTILE = 0.25
_DRAWS = 400

LEAST = 6
"""Fewest turns for an interval."""


@dataclass(frozen=True)
class GainRange:
    """A ratio with its confidence interval.

    Attributes:
        value: the ratio.
        low: lower end; 0 if there are too few turns.
        high: upper end; infinity if there are too few turns.
        count: number of turns.
    """

    value: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(above: Sequence[float], below: Sequence[float]) -> GainRange:
        """Returns the ratio of two times, from what was measured of both in the same turns."""
        count = len(above)
        if not count:
            return GainRange(math.nan, 0.0, math.inf, 0)
        both = np.array([above, below], np.float64)
        usual = np.quantile(both, _QUANTILE, axis=1)
        value = float(usual[0] / usual[1])
        if count < LEAST:
            return GainRange(value, 0.0, math.inf, count)
        # The same seed each time, so that the same times give the same interval.
        drawn = np.random.default_rng(count).integers(0, count, (_DRAWS, count))
        quantiles = np.quantile(both[:, drawn], _QUANTILE, axis=2)
        edge = (1 - CONFIDENCE) / 2
        low, high = np.quantile(quantiles[0] / quantiles[1], (edge, 1 - edge))
        return GainRange(value, float(low), float(high), count)
