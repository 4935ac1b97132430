"""Options of a search."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..lowering.linalg_to_vector.spaces.space import SearchSpace
from ..support.errors import OptionError
from .cost_model import is_installed
from .searchers.evolution import EvolutionarySearcher, GainModel
from .searchers.policy import PolicySearcher
from .searchers.searcher import Searcher
from .searchers.simple import ExhaustiveSearcher, RandomSearcher

SearcherName = Literal["auto", "learned", "evolution", "policy", "random", "exhaustive"]
SEARCHERS = get_args(SearcherName)

_SMALL = 40
"""Size of a space that is searched exhaustively."""


@dataclass(frozen=True)
class TuningOptions:
    """Options of a search.

    Attributes:
        seconds: time of the whole search; None for no limit.
        trials: number of trials; None for no limit.
        threads: number of threads of a call; None for one for each core.
        searcher: how candidates are found: "learned" by a model of all trials, "evolution" led by the built-in cost
            function, "policy" by reinforcement, "random", "exhaustive"; "auto" is learned if its library is installed,
            for the choices above single kernels "policy".
        processes: number of processes that compile candidates.
        seed: seed of random numbers.
        turns: maximum number of turns of a trial.
        graph: part of the time and of the trials for choices above single kernels; 0 for none.
        error: maximum error of results relative to the greatest, for which products may have a shorter precision; None
            for no shorter one.
    """

    seconds: float | None = 600.0
    trials: int | None = None
    threads: int | None = None
    searcher: SearcherName = "auto"
    processes: int = 2
    seed: int = 0
    turns: int = 24
    graph: float = 0.25
    error: float | None = None

    def __post_init__(self) -> None:
        if self.searcher not in SEARCHERS:
            raise OptionError(f"searcher is {self.searcher!r}, and must be one of {', '.join(map(repr, SEARCHERS))}")
        for name in ("seconds", "trials", "threads"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise OptionError(f"{name} is {value!r}, and must be more than 0, or None")
        if not 0 <= self.graph <= 1:
            raise OptionError(f"graph is {self.graph!r}, and must be between 0 and 1")
        if self.error is not None and not 0 < self.error < 1:
            raise OptionError(f"error is {self.error!r}, and must be between 0 and 1, or None")
        if self.seconds is None and self.trials is None:
            raise OptionError("a search needs an end: seconds, trials or both")

    @property
    def learns(self) -> bool:
        """True if a model is fitted to the trials."""
        return self.searcher == "learned" or (self.searcher == "auto" and is_installed())

    def for_graph(self) -> TuningOptions | None:
        """Returns the options of the search above single kernels; None if there is none."""
        trials = None if self.trials is None else int(self.graph * self.trials)
        if not self.graph or trials == 0:
            return None
        seconds = None if self.seconds is None else self.graph * self.seconds
        searcher = "policy" if self.searcher == "auto" else self.searcher
        return replace(self, seconds=seconds, trials=trials, searcher=searcher)

    def for_kernels(self, seconds: float, trials: int) -> TuningOptions:
        """Returns the options of the search for schedules, after another one took this time and these trials."""
        left = None if self.seconds is None else max(1e-3, self.seconds - seconds)
        return replace(self, seconds=left, trials=None if self.trials is None else max(1, self.trials - trials))

    def make_searcher(self, space: SearchSpace, number: int, model: GainModel | None) -> Searcher:
        """Returns a searcher for a kernel."""
        source = random.Random(f"{self.seed} {number}")
        if self.searcher == "random":
            return RandomSearcher(space, source)
        if self.searcher == "exhaustive" or (self.searcher == "auto" and space.size <= _SMALL):
            return ExhaustiveSearcher(space, source)
        if self.searcher == "policy":
            return PolicySearcher(space, source)
        return EvolutionarySearcher(space, source, model=model)
