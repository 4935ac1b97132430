"""The policy learns from rewards: with experience it needs fewer trials, and without learning it does not."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from stepwell.lowering.linalg_to_vector.spaces.space import EFFECT
from stepwell.machines.families import FAMILIES
from stepwell.passes.infra.decisions import Site
from stepwell.tuning.experience import experience_of
from stepwell.tuning.graph.space import GraphSpace
from stepwell.tuning.searchers.policy import Experience, LinearPolicy, PolicySearcher
from stepwell.tuning.searchers.simple import RandomSearcher

METHODS = {"direct": 1e5, "winograd 2": 9e4, "winograd 4": 1.1e5, "unfolded": 2e5}
MOST = 80


def graph(prefix: str, count: int) -> GraphSpace:
    """A graph with as many convolutions, whose cost function prefers `winograd 2` everywhere."""
    costs: dict[str, float | None] = dict(METHODS)
    sites = [
        Site(
            "method",
            f"{prefix} conv {number}",
            [f"{prefix}{number}"],
            "winograd 2",
            costs,
            1e7,
            float(1 << number + 12),
        )
        for number in range(count)
    ]
    return GraphSpace.of(sites, FAMILIES["zen3"], may_round=False)


def gain(space: GraphSpace, decided: Mapping[str, str]) -> float:
    """On this machine, large convolutions are faster with `winograd 4`, small ones directly."""
    names = sorted(space.sites)
    time = 0.0
    for name in names:
        is_large = space.sites[name].site.bytes > 1 << 16
        best = "winograd 4" if is_large else "direct"
        time += {best: 0.7}.get(decided.get(name, "winograd 2"), 1.0)
    return len(names) / time


def trials_to_best(searcher: Any, space: GraphSpace) -> int:
    best = 1 / 0.7
    for number in range(1, MOST + 1):
        candidate = searcher.ask()
        made = gain(space, candidate.parameters)
        searcher.tell(candidate.parameters, made)
        if made >= 0.95 * best:
            return number
    return MOST


def runs(kind: type, **fields: Any) -> Iterator[int]:
    for seed in range(3):
        space = graph("tuned", 8)
        yield trials_to_best(kind(space, random.Random(seed), **fields), space)


def first_gains(**fields: Any) -> list[float]:
    """Returns the gain of the first candidate of several searches."""
    space = graph("tuned", 8)
    searchers = [PolicySearcher(space, random.Random(seed), **fields) for seed in range(8)]
    candidates = [searcher.ask() for searcher in searchers]
    return [gain(space, candidate.parameters) for candidate in candidates if candidate is not None]


def test_it_needs_a_fifth_of_the_trials_of_chance() -> None:
    assert statistics.median(runs(PolicySearcher)) <= statistics.median(runs(RandomSearcher)) / 5


def test_it_finds_nothing_sooner_if_it_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = statistics.median(runs(PolicySearcher))
    monkeypatch.setattr(LinearPolicy, "learn", lambda self, known: None)
    assert statistics.median(runs(PolicySearcher)) > 2 * learning


def test_it_knows_new_graphs_from_those_before() -> None:
    before: list[Experience] = []
    other, source = graph("other", 10), random.Random(1)
    searcher = RandomSearcher(other, source)
    for _ in range(60):
        candidate = searcher.ask()
        assert candidate is not None
        made = gain(other, candidate.parameters)
        features, predicted = other.features(candidate.parameters), other.predicted(candidate.parameters)
        assert predicted
        expected = other.nanoseconds / predicted
        before.append(Experience.of("other", features, candidate.choice, expected, made))
    fresh, experienced = first_gains(), first_gains(before=before)
    assert statistics.mean(experienced) > statistics.mean(fresh) + 0.05


def test_failures_are_experience_and_groups_are_compared_within() -> None:
    failed = Experience.of("a", {"x": 1.0}, {}, None, None)
    assert failed.reward == -0.5
    policy = LinearPolicy()
    # Group b is faster as a whole, which says nothing of x.
    rows = [("a", 0.0, 0.0), ("a", 1.0, 0.2), ("b", 0.0, 1.0), ("b", 1.0, 1.2)]
    policy.learn([Experience(group, {"x": value}, reward) for group, value, reward in rows] * 4)
    assert policy.mean == pytest.approx([0.2], abs=0.02)


def test_an_unknown_effect_is_drawn_once() -> None:
    weights = LinearPolicy().drawn(np.random.default_rng(0))
    first = weights[f"{EFFECT}a = b"]
    assert first == weights[f"{EFFECT}a = b"] != weights[f"{EFFECT}a = c"]


def test_nothing_is_learned_from_nothing() -> None:
    policy = LinearPolicy()
    policy.learn(experience_of([]))
    assert policy.names == []
