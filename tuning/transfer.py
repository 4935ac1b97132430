"""Starting points of a search: what was fastest for similar kernels of other shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..lowering.linalg_to_vector.spaces.space import RefusedError, SearchSpace, SpaceChoice
from .choices import best_trials
from .database import Trial

_MOST = 4
"""Maximum number of starting points."""


def starting_points(space: SearchSpace, trials: Iterable[Trial]) -> list[SpaceChoice]:
    """Returns the best choices for the most similar kernels that are legal for this one, the most similar first.

    Args:
        space: the kernel's search space.
        trials: trials of other kernels on the same machine.
    """
    axes = {axis.name: axis.values for axis in space.axes}
    found: dict[str, tuple[float, SpaceChoice]] = {}
    for trial in best_trials(trials):
        # Values of a kernel with other extents may not be possible here: a space is legal for its own values only.
        if not trial.choice or not all(value in axes.get(name, ()) for name, value in trial.choice.items()):
            continue
        try:
            parameters = space.parameters(trial.choice)
        except RefusedError:
            continue
        distance = _distance(space.features(parameters), trial.features)
        if parameters and distance is not None:
            key = repr(sorted(parameters.items()))
            found[key] = min(found.get(key, (math.inf, {})), (distance, trial.choice), key=lambda item: item[0])
    return [choice for _, choice in sorted(found.values(), key=lambda item: item[0])[:_MOST]]


def _distance(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float | None:
    """Returns how much the features of two kernels differ; None if they are of different kinds."""
    if ours.keys() != theirs.keys():
        return None
    return math.sqrt(sum((value - theirs[name]) ** 2 for name, value in ours.items()))
