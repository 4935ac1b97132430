"""Options of a search."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

from ..lowering.linalg_to_vector.spaces.space import SearchSpace
from ..support.errors import OptionError
from .cost_model import is_installed
from .searchers.evolution import EvolutionarySearcher, GainModel
from .searchers.searcher import Searcher
from .searchers.simple import ExhaustiveSearcher, RandomSearcher

SearcherName = Literal["auto", "learned", "evolution", "random", "exhaustive"]
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
            function, "random", "exhaustive"; "auto" is learned if its library is installed.
        processes: number of processes that compile candidates.
        seed: seed of random numbers.
        turns: maximum number of turns of a trial.
    """

    seconds: float | None = 600.0
    trials: int | None = None
    threads: int | None = None
    searcher: SearcherName = "auto"
    processes: int = 2
    seed: int = 0
    turns: int = 24

    def __post_init__(self) -> None:
        if self.searcher not in SEARCHERS:
            raise OptionError(f"searcher is {self.searcher!r}, and must be one of {', '.join(map(repr, SEARCHERS))}")
        for name in ("seconds", "trials", "threads"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise OptionError(f"{name} is {value!r}, and must be more than 0, or None")
        if self.seconds is None and self.trials is None:
            raise OptionError("a search needs an end: seconds, trials or both")

    @property
    def learns(self) -> bool:
        """True if a model is fitted to the trials."""
        return self.searcher == "learned" or (self.searcher == "auto" and is_installed())

    def make_searcher(self, space: SearchSpace, number: int, model: GainModel | None) -> Searcher:
        """Returns a searcher for a kernel."""
        source = random.Random(f"{self.seed} {number}")
        if self.searcher == "random":
            return RandomSearcher(space, source)
        if self.searcher == "exhaustive" or (self.searcher == "auto" and space.size <= _SMALL):
            return ExhaustiveSearcher(space, source)
        return EvolutionarySearcher(space, source, model=model)
