"""A policy that learns which changes shorten a call, by reinforcement: it acts, and measured time is its reward.

The policy is a linear contextual bandit with Thompson sampling (Agrawal and Goyal, 2013). The action is a whole set of
values, its context the features of the graph or kernel that it changes, its reward the logarithm of the measured gain.
The policy holds a normal distribution over the weights of the features. For each proposal it draws weights, and takes
the action that would be best with them: actions that are uncertain are tried about as often as they may be best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...lowering.linalg_to_vector.spaces.space import EFFECT, RefusedError, SpaceChoice
from .searcher import FAILED_GAIN, Candidate, Searcher

Features = Mapping[str, float]

EXPECTED = "expected"
"""The feature that is the logarithm of the gain that the cost function predicts."""

# Mean and deviation of weights before anything is known: the cost function is half right, and a change of one place
# costs a twentieth of its time, as the default values are mostly the best.
_TRUST, _TRUST_DEVIATION = 0.5, 0.3
_EFFECT, _DEVIATION = -0.05, 0.2

_NOISE = 0.02
"""Deviation of a reward: a measurement is good to about 2 %."""

_SWEEPS = 3
"""Maximum number of passes over all axes in the search for the best action: the second one rarely changes a value."""

_DRAWS = 8
"""Number of draws of weights, after which a random candidate is proposed."""

_LEAST_REWARD = -0.5
"""The least reward: how slow a bad action is does not matter."""


@dataclass(frozen=True)
class Experience:
    """An action with its reward.

    Attributes:
        group: the graph or kernel; rewards are compared within a group.
        features: the features of the action.
        reward: the logarithm of its gain.
    """

    group: str
    features: Features
    reward: float

    @staticmethod
    def of(
        group: str, features: Features, choice: SpaceChoice, predicted: float | None, gain: float | None
    ) -> Experience:
        """Returns the experience of a measured candidate.

        Args:
            group: its graph or kernel.
            features: the features of its space.
            choice: its values by axis.
            predicted: the gain that the cost function predicts; None if it knows none.
            gain: the measured gain; None if it has no time.
        """
        return Experience(group, described(features, choice, predicted), _reward(gain or FAILED_GAIN))


def described(features: Features, choice: SpaceChoice, predicted: float | None) -> dict[str, float]:
    """Returns the features of an action: those of its space, one for each changed value, and the expected reward."""
    found = {f"{EFFECT}{name} = {value}": 1.0 for name, value in choice.items() if value is not None}
    return {**found, **features, EXPECTED: math.log(predicted or 1.0)}


def _prior(name: str) -> tuple[float, float]:
    """The mean and the deviation of the weight of a feature before anything is known."""
    if name == EXPECTED:
        return _TRUST, _TRUST_DEVIATION
    return (_EFFECT if name.startswith(EFFECT) else 0.0), _DEVIATION


class DrawnWeights(dict[str, float]):
    """Weights that were drawn, by feature; those of features without experience are drawn when they are needed."""

    def __init__(self, known: Mapping[str, float], source: np.random.Generator) -> None:
        super().__init__(known)
        self._source = source

    def __missing__(self, name: str) -> float:
        mean, deviation = _prior(name)
        self[name] = mean + deviation * float(self._source.standard_normal())
        return self[name]

    def value(self, features: Features) -> float:
        """Returns the reward of an action, up to a constant."""
        return sum(self[name] * number for name, number in features.items())


@dataclass
class LinearPolicy:
    """A normal distribution over the weights of features.

    Attributes:
        names: the features.
        scale: the deviation of each of them, at least 1.
        mean: the means of the weights.
        spread: a factor of their covariance: the matrix times its transpose.
    """

    names: Sequence[str] = ()
    scale: np.ndarray = field(default_factory=lambda: np.zeros(0))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    spread: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def learn(self, known: Iterable[Experience]) -> None:
        """Computes the distribution from all experience (Bayesian linear regression)."""
        groups: dict[str, list[Experience]] = {}
        for item in known:
            groups.setdefault(item.group, []).append(item)
        self.names = sorted({name for items in groups.values() for item in items for name in item.features})
        rows, rewards = [], []
        for items in groups.values():
            matrix = np.array([[item.features.get(name, 0.0) for name in self.names] for item in items])
            reward = np.array([item.reward for item in items])
            # A group's own mean is neither a merit nor a fault of its actions.
            rows.append(matrix - matrix.mean(axis=0))
            rewards.append(reward - reward.mean())
        if not self.names:
            return
        x, y = np.concatenate(rows), np.concatenate(rewards)
        self.scale = np.maximum(1.0, x.std(axis=0))
        x = x / self.scale
        usual, deviation = np.array([_prior(name) for name in self.names]).T
        precision = x.T @ x / _NOISE**2 + np.diag(1 / deviation**2)
        self.spread = np.linalg.inv(np.linalg.cholesky(precision)).T
        self.mean = usual + self.spread @ (self.spread.T @ (x.T @ (y - x @ usual))) / _NOISE**2

    def drawn(self, source: np.random.Generator) -> DrawnWeights:
        """Draws weights."""
        weights = self.mean + self.spread @ source.standard_normal(len(self.names))
        return DrawnWeights(dict(zip(self.names, (weights / self.scale).tolist(), strict=True)), source)


@dataclass
class PolicySearcher(Searcher):
    """Proposes the actions of a policy that learns from the rewards of all of them.

    Attributes:
        policy: the policy.
        before: experience with other graphs and kernels, from which it begins.
    """

    policy: LinearPolicy = field(default_factory=LinearPolicy)
    before: Sequence[Experience] = ()

    def propose(self) -> Candidate | None:
        self.policy.learn([*self.before, *self._own()])
        source = np.random.default_rng(self.random.getrandbits(32))
        for _ in range(_DRAWS):
            found = self._best(self.policy.drawn(source), source)
            if found is not None:
                return found
        return self.draw()

    def _own(self) -> Iterable[Experience]:
        for key, gain in self.seen.items():
            if gain is not None:
                choice = self.choices.get(key, {})
                yield Experience("", self._described(choice, self.parameters[key]), _reward(gain))

    def _described(self, choice: SpaceChoice, parameters: Mapping[str, object]) -> Features:
        usual, predicted = self.space.predicted({}), self.space.predicted(parameters)
        return described(self.space.features(parameters), choice, usual / predicted if usual and predicted else None)

    def _best(self, weights: DrawnWeights, source: np.random.Generator) -> Candidate | None:
        """Returns the best action that was not taken before, found by changing one axis after another."""
        choice: SpaceChoice = {}
        score = self._score(weights, choice)
        best, most = None, -math.inf
        for _ in range(_SWEEPS):
            before = choice
            for index in source.permutation(len(self.space.axes)):
                axis = self.space.axes[index]
                for value in axis.values:
                    changed = {**choice, axis.name: value}
                    made = self._score(weights, changed)
                    if made > score:
                        choice, score = changed, made
                    if made > most and (found := self.candidate(changed)) is not None:
                        best, most = found, made
            if choice == before:
                break
        return best

    def _score(self, weights: DrawnWeights, choice: SpaceChoice) -> float:
        try:
            parameters = self.space.parameters(choice)
        except RefusedError:
            return -math.inf
        return weights.value(self._described(choice, parameters))


def _reward(gain: float) -> float:
    return max(_LEAST_REWARD, math.log(gain))
