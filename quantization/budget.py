"""Finds a form for every product, so that the error of the outputs or the size of the weights is within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .options import QuantizationOptions
from .plan import Plan, ProductPlan
from .switches import OutputErrors

_LEAST_PART = 0.1
"""Least part of a product's own error that is taken to be in the outputs': estimates may be around 0."""
_WORTH = 0.9
"""Largest error with a cure, relative to the one without, at which the cure is applied: a choice."""
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
        alone: the square error of the outputs if only one product is narrow, by product and level; only of the products
            and levels that the search or the cures need.
        is_met: whether the budget is met.
    """

    levels: list[int]
    errors: OutputErrors
    narrowest: OutputErrors
    contributions: list[Contribution]
    alone: dict[tuple[int, int], float]
    is_met: bool


def contributions_of(plan: Plan, measure: Measure) -> tuple[OutputErrors, list[Contribution]]:
    """Returns the errors if all products have their narrowest form, and each product's part in them."""
    base = measure(plan.narrowest)
    return base, _contributions(plan.narrowest, base, measure)


def search(
    plan: Plan,
    measure: Measure,
    base: OutputErrors,
    parts: list[Contribution],
    cured: Mapping[int, Sequence[int]],
) -> WidthSearch:
    """Chooses the form of each product.

    Without a budget, products with faults get the cure of the same width with the least error, if the outputs' error
    falls. With one, products are made wider in the order of their gain per byte. Bisection finds the minimum number of
    these steps that meets the budget of the error; then products that need not be wide are narrowed again. The result
    is compared with the uniform assignments. For a budget of bytes, as many products of the same order are made wider
    as it allows.

    Args:
        plan: the products and their forms.
        measure: measures an assignment.
        base: the errors of the narrowest assignment.
        parts: each product's part in them.
        cured: the levels of the cures that may be applied without a budget, by product.
    """
    options, narrow = plan.options, plan.narrowest
    chosen = range(len(narrow)) if options.has_budget else sorted(cured)
    alone = {
        (index, level): measure(_only(narrow, index, level)).square
        for index in chosen
        for level in range(1, narrow[index] + 1)
    }
    alone |= {(index, 0): 0.0 for index in chosen}
    if not options.has_budget:
        levels = _with_cures(plan, base, cured, alone, measure)
        return WidthSearch(levels, measure(levels), base, parts, alone, is_met=True)
    steps = _steps(plan, parts, alone)
    if options.max_error is None and options.max_kld is None:
        levels = _widest_within(plan, steps)
    else:
        levels = _narrowest_within(plan, steps, measure)
        levels = _narrowed_again(plan, levels, alone, measure)
    errors = measure(levels)
    return WidthSearch(levels, errors, base, parts, alone, _is_within(options, errors) and _fits(plan, levels))


def _only(narrow: Sequence[int], index: int, level: int) -> list[int]:
    levels = [0] * len(narrow)
    levels[index] = level
    return levels


def _with_cures(
    plan: Plan,
    base: OutputErrors,
    cured: Mapping[int, Sequence[int]],
    alone: Mapping[tuple[int, int], float],
    measure: Measure,
) -> list[int]:
    """Applies the best cure of each product: of all together, or one after the other if the outputs' error falls.

    Cures of products in a row may have an effect only together.
    """
    levels, square = plan.narrowest, base.square
    best: list[tuple[float, int, int]] = []
    for index, usable in cured.items():
        plain = alone[index, levels[index]]
        level = min(usable, key=lambda each: alone[index, each], default=levels[index])
        if alone[index, level] <= _WORTH**2 * plain:
            best.append((alone[index, level] - plain, index, level))
    together = list(levels)
    for _, index, level in best:
        together[index] = level
    for _, index, level in sorted(best):
        tried = list(levels)
        tried[index] = level
        errors = measure(tried)
        if errors.square < square:
            levels, square = tried, errors.square
    return together if best and measure(together).square < square else levels


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


_Step = tuple[int, int]
"""A product, and the level that it is widened to."""


def _steps(plan: Plan, parts: Sequence[Contribution], alone: Mapping[tuple[int, int], float]) -> list[_Step]:
    """Returns the steps in the order of their gain of error per byte; those of a product become wider and wider."""
    found: list[tuple[float, int, _Step]] = []
    for index, item in enumerate(plan.products):
        ladder = _ladder(item, index, alone)
        plain = alone[index, ladder[0]]
        # The error of the product alone may differ from its part in the whole error, which is what counts here.
        weight = max(parts[index].square / plain, _LEAST_PART) if plain else 0.0
        rank = np.inf
        for place, (low, high) in enumerate(pairwise(ladder)):
            gained = weight * (alone[index, low] - alone[index, high])
            rank = min(rank, gained / (item.widths[high].nbytes - item.widths[low].nbytes))
            found.append((-rank, place, (index, high)))
    return [step for _, _, step in sorted(found)]


def _ladder(item: ProductPlan, index: int, alone: Mapping[tuple[int, int], float]) -> list[int]:
    """Returns levels from narrow to wide whose error falls by less and less for each byte (the lower convex hull)."""
    order = sorted(range(len(item.widths)), key=lambda level: (item.widths[level].nbytes, alone[index, level]))
    hull: list[int] = []
    for level in order:
        if hull and (alone[index, level] >= alone[index, hull[-1]]):
            continue
        while len(hull) > 1 and _gain(item, index, alone, hull[-2], hull[-1]) <= _gain(
            item, index, alone, hull[-2], level
        ):
            hull.pop()
        if hull and item.widths[level].nbytes == item.widths[hull[-1]].nbytes:
            hull.pop()
        hull.append(level)
    return hull


def _gain(item: ProductPlan, index: int, alone: Mapping[tuple[int, int], float], low: int, high: int) -> float:
    cost = item.widths[high].nbytes - item.widths[low].nbytes
    return (alone[index, low] - alone[index, high]) / cost if cost else np.inf


def _after(plan: Plan, steps: Sequence[_Step]) -> list[int]:
    levels = plan.narrowest
    for index, level in steps:
        levels[index] = level
    return levels


def _narrowest_within(plan: Plan, steps: Sequence[_Step], measure: Measure) -> list[int]:
    """Returns the smallest assignment within the budget: after a number of steps, or of one width for all products."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if _is_within(plan.options, measure(_after(plan, steps[:middle]))):
            high = middle
        else:
            low = middle + 1
    found = _after(plan, steps[:low])
    for levels in _uniform(plan):
        if plan.nbytes(levels) < plan.nbytes(found) and _is_within(plan.options, measure(levels)):
            found = levels
    return found


def _uniform(plan: Plan) -> list[list[int]]:
    """Returns the assignments in which all products have the plain form of one width."""
    names = {width.name for item in plan.products for width in item.widths if not width.cure}
    found = []
    for name in names:
        levels = [
            next((place for place, width in enumerate(item.widths) if width.name == name), -1) for item in plan.products
        ]
        if -1 not in levels:
            found.append(levels)
    return found


def _narrowed_again(
    plan: Plan, levels: list[int], alone: Mapping[tuple[int, int], float], measure: Measure
) -> list[int]:
    """Narrows products, those first that save most bytes for the error that they add, while the budget is met."""
    trials: list[tuple[float, int, int]] = []
    for index, item in enumerate(plan.products):
        used = item.widths[levels[index]]
        for level in _ladder(item, index, alone):
            saved = used.nbytes - item.widths[level].nbytes
            if saved > 0:
                added = max(alone[index, level] - alone[index, levels[index]], 0.0)
                trials.append((added / saved, index, level))
    for _, index, level in sorted(trials)[:_MOST_TRIALS]:
        item = plan.products[index]
        if item.widths[level].nbytes >= item.widths[levels[index]].nbytes:
            continue
        tried = [*levels[:index], level, *levels[index + 1 :]]
        if _is_within(plan.options, measure(tried)):
            levels = tried
    return levels


def _widest_within(plan: Plan, steps: Sequence[_Step]) -> list[int]:
    levels = plan.narrowest
    for index, level in steps:
        tried = [*levels[:index], level, *levels[index + 1 :]]
        if _fits(plan, tried):
            levels = tried
    return levels


def _is_within(options: QuantizationOptions, errors: OutputErrors) -> bool:
    is_small = options.max_error is None or errors.relative <= options.max_error
    return is_small and (options.max_kld is None or errors.kld <= options.max_kld)


def _fits(plan: Plan, levels: Sequence[int]) -> bool:
    limit = plan.options.target_bytes
    return limit is None or plan.nbytes(levels) <= limit
