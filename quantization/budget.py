"""Finds a form for every product, so that the error of the outputs or the size of the weights is within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .options import QuantizationOptions
from .plan import Plan, ProductPlan
from .switches import OutputErrors

Measure = Callable[[Sequence[int]], OutputErrors]
_ORDERS = 2
"""Number of random orders by which contributions are estimated; each takes two runs per product and sample."""
_MOST_TRIALS = 64
"""Number of products that the second search tries to narrow again; each takes one run of the model per sample."""


@dataclass(frozen=True)
class Contribution:
    """A product's part in the error of the outputs.

    Attributes:
        square: part of the square error if every product has its narrowest form; the parts of all products add up to
            it.
        share: `square` as a fraction of the square error.
    """

    square: float
    share: float


@dataclass(frozen=True)
class WidthSearch:
    """The result of a search.

    Attributes:
        levels: the form of each product.
        errors: the errors of this assignment.
        narrowest: the errors if all products have their narrowest form.
        contributions: each product's part in these.
        is_met: whether the budget is met.
    """

    levels: list[int]
    errors: OutputErrors
    narrowest: OutputErrors
    contributions: list[Contribution]
    is_met: bool


def search(plan: Plan, measure: Measure) -> WidthSearch:
    """Measures each product's contribution, and searches an assignment if there is a budget.

    Products are made wider in the order of their gain per byte. Bisection finds the minimum number that meets the
    budget of the error; then products that need not be wide are narrowed again. For a budget of bytes, as many products
    of the same order are made wider as it allows.
    """
    narrow = [len(item.widths) - 1 for item in plan.products]
    base = measure(narrow)
    contributions = _contributions(narrow, base, measure)
    options = plan.options
    if not options.has_budget:
        return WidthSearch(narrow, base, base, contributions, is_met=True)
    steps = _steps(plan, narrow, contributions)
    if options.max_error is None and options.max_kld is None:
        levels = _widest_within(plan, narrow, steps)
    else:
        levels = _narrowest_within(options, narrow, steps, measure)
        levels = _narrowed_again(plan, levels, narrow, contributions, measure)
    errors = measure(levels)
    return WidthSearch(levels, errors, base, contributions, _is_within(options, errors) and _fits(plan, levels))


def _contributions(narrow: Sequence[int], base: OutputErrors, measure: Measure) -> list[Contribution]:
    """Estimates each product's Shapley value of the square error (Shapley, "A Value for n-Person Games", 1953).

    Products become narrow one after the other, in random orders and the reverse of each. A part is the mean increase of
    the error. Unlike the effect of one product alone, these parts add up to the error of all products.
    """
    random = np.random.default_rng(0)
    orders = [random.permutation(len(narrow)) for _ in range(_ORDERS)]
    parts = np.zeros(len(narrow))
    for order in [*orders, *(order[::-1] for order in orders)]:
        levels, before = [0] * len(narrow), 0.0
        for index in order:
            levels[index] = narrow[index]
            square = measure(levels).square
            parts[index] += (square - before) / (2 * _ORDERS)
            before = square
    return [Contribution(float(part), float(part) / base.square if base.square else 0.0) for part in parts]


def _raised(levels: Sequence[int], index: int) -> list[int]:
    return [level - (place == index) for place, level in enumerate(levels)]


def _steps(plan: Plan, narrow: Sequence[int], parts: Sequence[Contribution]) -> list[int]:
    """Returns the products in the order in which they are made wider; a product occurs once for each wider form."""
    found: list[tuple[float, int, int]] = []
    for index, item in enumerate(plan.products):
        noise = [_noise(item, level) for level in range(narrow[index] + 1)]
        rank = np.inf
        for level in range(narrow[index], 0, -1):
            # With several widths activations stay in float: all of the error comes from the weights.
            gained = (noise[level] - noise[level - 1]) / noise[-1] if narrow[index] > 1 and noise[-1] else 1.0
            cost = max(item.widths[level - 1].nbytes - item.widths[level].nbytes, 1)
            rank = min(rank, parts[index].square * gained / cost)  # a form is reached through the wider ones before it
            found.append((-rank, narrow[index] - level, index))
    return [index for _, _, index in sorted(found)]


def _noise(item: ProductPlan, level: int) -> float:
    return float(((item.widths[level].weight.astype(np.float64) - item.product.weight) ** 2).sum())


def _after(narrow: Sequence[int], steps: Sequence[int]) -> list[int]:
    levels = list(narrow)
    for index in steps:
        levels[index] -= 1
    return levels


def _narrowest_within(
    options: QuantizationOptions, narrow: Sequence[int], steps: Sequence[int], measure: Measure
) -> list[int]:
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if _is_within(options, measure(_after(narrow, steps[:middle]))):
            high = middle
        else:
            low = middle + 1
    return _after(narrow, steps[:low])


def _narrowed_again(
    plan: Plan, levels: list[int], narrow: Sequence[int], gains: Sequence[Contribution], measure: Measure
) -> list[int]:
    wider = [index for index, level in enumerate(levels) if level < narrow[index]]
    for index in sorted(wider, key=lambda place: gains[place].square)[:_MOST_TRIALS]:
        tried = [level + (place == index) for place, level in enumerate(levels)]
        if _is_within(plan.options, measure(tried)):
            levels = tried
    return levels


def _widest_within(plan: Plan, narrow: Sequence[int], steps: Sequence[int]) -> list[int]:
    levels = list(narrow)
    for index in steps:
        tried = _raised(levels, index)
        if _fits(plan, tried):
            levels = tried
    return levels


def _is_within(options: QuantizationOptions, errors: OutputErrors) -> bool:
    is_small = options.max_error is None or errors.relative <= options.max_error
    return is_small and (options.max_kld is None or errors.kld <= options.max_kld)


def _fits(plan: Plan, levels: Sequence[int]) -> bool:
    limit = plan.options.target_bytes
    return limit is None or plan.nbytes(levels) <= limit
