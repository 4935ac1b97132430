"""Base of searchers."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...lowering.linalg_to_vector.spaces.space import RefusedError, SearchSpace, SpaceChoice

FAILED_GAIN = 0.05
"""The gain that a candidate without a time counts as."""

_ATTEMPTS = 200
"""Choices that are drawn before a space counts as exhausted."""


@dataclass(frozen=True)
class Candidate:
    """A legal schedule that a searcher proposes.

    Attributes:
        choice: the values by axis; empty for a schedule that was found elsewhere.
        parameters: the parameters that differ from the default schedule.
    """

    choice: SpaceChoice
    parameters: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The parameters as text, the same for equal ones."""
        return json.dumps(self.parameters, sort_keys=True)


@dataclass
class Searcher(ABC):
    """Proposes candidates for one kernel.

    Attributes:
        space: the kernel's search space.
        random: the source of all random numbers.
        seen: the measured gain of every candidate that was proposed or told, by its key; None until it is told.
        parameters: the parameters of every one of them, by its key.
        choices: the choice of every one that was proposed, by its key.
        seeds: choices that are proposed first.
    """

    space: SearchSpace
    random: random.Random
    seen: dict[str, float | None] = field(default_factory=lambda: {"{}": 1.0})
    parameters: dict[str, Mapping[str, Any]] = field(default_factory=lambda: {"{}": {}})
    choices: dict[str, SpaceChoice] = field(default_factory=lambda: {"{}": {}})
    seeds: list[SpaceChoice] = field(default_factory=list)

    def ask(self) -> Candidate | None:
        """Returns a candidate that was not proposed before; None if there are no more."""
        found = None
        while found is None and self.seeds:
            found = self.candidate(self.seeds.pop(0))
        found = found or self.propose()
        if found is not None:
            self.seen[found.key] = None
            self.parameters[found.key], self.choices[found.key] = found.parameters, found.choice
        return found

    def tell(self, parameters: Mapping[str, Any], gain: float | None, choice: SpaceChoice | None = None) -> None:
        """Takes the gain that was measured for a candidate; None if it has no time.

        Args:
            parameters: the candidate's parameters.
            gain: its gain.
            choice: its values by axis, if another search proposed it.
        """
        key = json.dumps(parameters, sort_keys=True)
        if choice:
            self.choices.setdefault(key, choice)
        self.seen[key] = FAILED_GAIN if gain is None else gain
        self.parameters[key] = parameters

    @abstractmethod
    def propose(self) -> Candidate | None:
        """Returns a candidate that is not in `seen`; None if there are no more."""

    def choice_of(self, parameters: Mapping[str, Any]) -> SpaceChoice:
        """Returns the values by axis of a candidate; none if they are not known."""
        return self.choices.get(json.dumps(parameters, sort_keys=True), {})

    def candidate(self, choice: SpaceChoice) -> Candidate | None:
        """Returns the candidate of a choice; None if it is refused, or was proposed before."""
        try:
            found = Candidate(choice, self.space.parameters(choice))
        except RefusedError:
            return None
        return None if found.key in self.seen else found

    def draw(self) -> Candidate | None:
        """Returns a random candidate; None if many draws give none."""
        for _ in range(_ATTEMPTS):
            choice = {axis.name: self.random.choice(axis.values) for axis in self.space.axes}
            if (found := self.candidate(choice)) is not None:
                return found
        return None
