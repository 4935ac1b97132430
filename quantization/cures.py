"""Countermeasures against the detected faults: further forms of a product, whose effect is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .forms import NarrowActivation, Narrower, Width
from .observation import Activation
from .options import LEAST_BLOCK, RangeMethod
from .plan import Plan, ProductPlan
from .preparation import smoothing_factors
from .reasons import FaultKind, QuantizationFault, faults
from .scales import ActivationScale, activation_scale, scale_between

_MOST_WIDE = 16
"""The least part of a product's input channels that may stay in float is one in this number, so that little stays."""
_MOST_PRODUCTS = 24
"""Number of products that cures are tried for, those that add most error first: their forms take memory."""
_LEAST_SHARE = 0.005
"""Least share of the error of a product that cures are tried for: a choice."""
_SMOOTHING = 0.5
"""Exponent of smoothing, the SmoothQuant paper's default."""


@dataclass(frozen=True)
class Cure:
    """A form that may cure a fault.

    Attributes:
        fault: the fault.
        form: the form.
    """

    fault: QuantizationFault
    form: Width


@dataclass(frozen=True)
class CureTrial:
    """A cure that was tried, and the error of the outputs if only this product is narrow.

    Attributes:
        fault: the fault, as text.
        cure: the form.
        before: the error with the plain narrowest form.
        after: the error with the cure.
        is_applied: whether the product has this form in the result.
    """

    fault: str
    cure: str
    before: float
    after: float
    is_applied: bool


def patients(shares: Sequence[float]) -> list[int]:
    """Returns the indices of the products that cures are tried for."""
    order = sorted(range(len(shares)), key=lambda index: -shares[index])
    return [index for index in order if shares[index] >= _LEAST_SHARE][:_MOST_PRODUCTS]


def candidates(plan: Plan, item: ProductPlan, seen: Mapping[str, Activation]) -> list[Cure]:
    """Returns the forms that fit the faults of a product; a form may fit several of them."""
    found: dict[tuple[FaultKind, str], Cure] = {}
    for fault in faults(plan, item, seen):
        if fault.kind is FaultKind.UNDERFLOW:
            found.setdefault((fault.kind, ""), Cure(fault, item.widths[0]))
            continue
        maker = _BlockCures if plan.options.method == "weights" else _ByteCures
        for form in maker(plan, item, seen.get(item.product.data)).forms(fault):
            found.setdefault((fault.kind, form.name), Cure(fault, form))
    return list(found.values())


def usable_levels(plan: Plan, tried: Mapping[int, Sequence[Cure]]) -> dict[int, list[int]]:
    """Returns the levels of cures that may be applied without a budget, by product.

    Cures keep the width; only a product whose narrow form is broken by an underflow may stay in float.
    """
    found = {}
    for index, forms in tried.items():
        names = {each.form.name for each in forms if each.form.cure or each.fault.kind is FaultKind.UNDERFLOW}
        widths = plan.products[index].widths
        found[index] = [level for level, width in enumerate(widths) if width.name in names]
    return found


def with_cures(plan: Plan, found: Mapping[int, Sequence[Cure]]) -> Plan:
    """Returns a plan with the forms of the candidates before the narrowest form of each product."""
    products = []
    for index, item in enumerate(plan.products):
        known = {width.name for width in item.widths}
        forms = {each.form.name: each.form for each in found.get(index, ()) if each.form.name not in known}
        products.append(ProductPlan(item.product, [*item.widths[:-1], *forms.values(), item.widths[-1]]))
    made = Plan(plan.model, plan.options, products, plan.activations)
    made.levels = made.narrowest
    return made


@dataclass
class _BlockCures:
    """Forms of weights in blocks."""

    plan: Plan
    item: ProductPlan
    activation: Activation | None

    def forms(self, fault: QuantizationFault) -> Iterator[Width]:
        """Returns the forms that may cure a fault."""
        options, product = self.plan.options, self.item.product
        gram = self.activation.gram if self.activation is not None else None
        make = Narrower(product, options, gram)
        bits = options.bits
        if fault.kind is FaultKind.WEIGHT_OUTLIERS and (wide := _few(fault.channels, product.channels)):
            yield make.in_blocks(bits, options.block, "channels with outliers of the weights in float", wide)
        yield make.in_blocks(bits, options.block, "ranges by mse", rounding="clipped")
        block = options.block // 2
        while block >= LEAST_BLOCK:
            yield make.in_blocks(bits, block, f"blocks of {block}")
            block //= 2
        if gram is not None and product.is_matrix:
            yield make.in_blocks(bits, options.block, "errors compensated", rounding="compensated")
        if bits == 4 and not options.has_budget:
            yield make.in_blocks(8, options.block)


@dataclass
class _ByteCures:
    """Forms of products of bytes."""

    plan: Plan
    item: ProductPlan
    activation: Activation | None

    def forms(self, fault: QuantizationFault) -> Iterator[Width]:
        """Returns the forms that may cure a fault."""
        product, activation = self.item.product, self.activation
        make, plain = Narrower(product, self.plan.options), self.item.widths[-1].activation
        wide = _few(fault.channels, product.channels) if product.is_whole else ()
        if fault.kind is FaultKind.WEIGHT_OUTLIERS and wide:
            yield make.by_channel(plain, "channels with outliers of the weights in float", wide)
        if activation is None or plain is None:
            return
        is_static = plain.scale is not None
        if fault.kind is FaultKind.ACTIVATION_OUTLIERS and activation.largest is not None:
            largest = activation.largest
            if product.is_whole:
                factors = smoothing_factors([product], largest, _SMOOTHING)
                scale = _scale_within(activation, largest / factors) if is_static else None
                yield make.by_channel(NarrowActivation(scale, factors), "outliers moved into the weights")
            if wide:
                rest = np.delete(largest, list(wide))
                scale = _scale_within(activation, rest) if is_static else None
                yield make.by_channel(NarrowActivation(scale), "channels with outliers in float", wide)
        if fault.kind in (FaultKind.ACTIVATION_OUTLIERS, FaultKind.WIDE_RANGE) and is_static:
            yield from self._ranges(make, ("percentile", "mse", "entropy"))
        if fault.kind is FaultKind.CLIPPED:
            yield from self._ranges(make, ("minmax", "mse"))
        if fault.kind in (FaultKind.WIDE_RANGE, FaultKind.CLIPPED) and is_static:
            yield make.by_channel(NarrowActivation(), "scale from each call")

    def _ranges(self, make: Narrower, methods: Sequence[RangeMethod]) -> Iterator[Width]:
        options = self.plan.options
        assert self.activation is not None
        for method in methods:
            if method == options.ranges or (method != "minmax" and not self.activation.counts.any()):
                continue
            scale = activation_scale(self.activation.histogram, method, options.percentile)
            yield make.by_channel(NarrowActivation(scale), f"range by {method}")


def _few(channels: Sequence[int], count: int) -> tuple[int, ...]:
    """Returns the channels that may stay in float; none if they are too many."""
    return tuple(sorted(channels)) if 0 < len(channels) <= max(1, count // _MOST_WIDE) else ()


def _scale_within(activation: Activation, largest: np.ndarray) -> ActivationScale:
    """Returns the scale of an activation of which only these magnitudes are left."""
    most = float(largest.max())
    return scale_between(-most if activation.low < 0 else 0.0, most if activation.high > 0 else 0.0)
