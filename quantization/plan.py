"""The plan of a quantisation: the widths that each product may have, and its numbers at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from .blocks import awq_factors
from .float_model import FloatModel, FloatProduct
from .forms import NarrowActivation, Narrower, Width, in_float
from .observation import Activation
from .options import LEAST_BLOCK, QuantizationOptions
from .preparation import by_activation, scale_activations
from .scales import activation_scale

FOLLOWERS = frozenset(
    {
        *("Add", "AveragePool", "Concat", "Flatten", "GlobalAveragePool", "MaxPool", "Relu", "Reshape", "Slice"),
        *("Squeeze", "Transpose", "Unsqueeze"),
    }
)
"""Operators that read the narrow form of an activation if a product does, so that its wide form is not needed."""
FOR_BLOCKS = 21
"""The first opset whose DequantizeLinear takes blocks, which weights of convolutions are stored in."""
_LARGE_BLOCK = 128
"""Block of weights in 8 bits whose scales take few bytes: the largest that is usual."""


@dataclass(frozen=True)
class ProductPlan:
    """A product and its forms, from wide to narrow; the first is float, the last the plain form that was asked for."""

    product: FloatProduct
    widths: Sequence[Width]


@dataclass
class Plan:
    """All that is needed to write a quantised model.

    Attributes:
        model: the prepared float model.
        options: the options.
        products: the products that are not excluded.
        activations: the plain narrow form of each activation; empty if the method is `weights`.
        levels: the chosen form of each product, an index of its widths.
    """

    model: FloatModel
    options: QuantizationOptions
    products: list[ProductPlan]
    activations: dict[str, NarrowActivation] = field(default_factory=dict)
    levels: list[int] = field(default_factory=list)

    def of(self, name: str) -> ProductPlan | None:
        """Returns the product of a node; None if it has none."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, ProductPlan]:
        return {item.product.name: item for item in self.products}

    @property
    def narrowest(self) -> list[int]:
        """The levels at which every product has the plain form that was asked for."""
        return [len(item.widths) - 1 for item in self.products]

    def narrow_activations(self, levels: Sequence[int]) -> set[str]:
        """Returns the activations that a product takes in their plain narrow form, if the scale is constant."""
        forms = [(item.product.data, item.widths[level]) for item, level in zip(self.products, levels, strict=True)]
        return {
            name
            for name, width in forms
            if width.activation is not None
            and width.activation.scale is not None
            and width.activation is self.activations.get(name)
        }

    def nbytes(self, levels: Sequence[int]) -> int:
        """Returns the bytes of the weights of all products."""
        return sum(item.widths[level].nbytes for item, level in zip(self.products, levels, strict=True))


def make_plan(model: FloatModel, options: QuantizationOptions, seen: Mapping[str, Activation]) -> Plan:
    """Chooses scales, and quantises the weights in every form that products may have."""
    if options.method == "weights" and options.algorithm == "awq":
        _scale_channels(model, _included(model, options), seen, options)
    products = _included(model, options)
    if options.method == "weights":
        is_blocked = model.opset >= FOR_BLOCKS
        products = [item for item in products if item.is_matrix or is_blocked]
        plan = Plan(model, options, _with_weights(products, options, seen))
    else:
        activations = {name: _narrow(options, seen.get(name)) for name in by_activation(products)}
        plans = [
            ProductPlan(item, (in_float(item), Narrower(item, options).by_channel(activations[item.data])))
            for item in products
        ]
        plan = Plan(model, options, plans, activations)
    plan.levels = plan.narrowest
    return plan


def _included(model: FloatModel, options: QuantizationOptions) -> list[FloatProduct]:
    return [item for item in model.products if item.name not in options.exclude]


def _narrow(options: QuantizationOptions, activation: Activation | None) -> NarrowActivation:
    """Returns the plain form of an activation; each call computes the scale if no sample reached the activation."""
    if options.method != "static" or activation is None or not activation.rows:
        return NarrowActivation()
    return NarrowActivation(activation_scale(activation.histogram, options.ranges, options.percentile))


def _with_weights(
    products: Sequence[FloatProduct], options: QuantizationOptions, seen: Mapping[str, Activation]
) -> list[ProductPlan]:
    """Returns the plans of products whose activations stay wide.

    Products of one weight, such as the steps of an unrolled loop, share its forms. Compensated ones depend on the
    activation, too.
    """
    made: dict[tuple[bytes, Any], list[Width]] = {}
    plans = []
    for item in products:
        data = item.data if options.algorithm == "gptq" else ""
        key = (blake2b(item.weight.tobytes()).digest(), (item.weight.shape, item.axis, item.node.op_type, data))
        if key not in made:
            made[key] = _weights(item, options, seen)
        plans.append(ProductPlan(item, made[key]))
    return plans


def _weights(product: FloatProduct, options: QuantizationOptions, seen: Mapping[str, Activation]) -> list[Width]:
    widths = (8, 4) if options.has_budget and options.bits == 4 else (options.bits,)
    compensates = options.algorithm == "gptq" and product.is_matrix and product.data in seen
    rounding = "compensated" if compensates else "nearest"
    made = Narrower(product, options, seen[product.data].gram if compensates else None)
    forms = [made.in_blocks(bits, options.block, rounding=rounding) for bits in widths]
    if options.has_budget and options.cures:
        forms[1:1] = _between(made, options)
    return [in_float(product), *forms]


def _between(made: Narrower, options: QuantizationOptions) -> list[Width]:
    """Returns further forms that a budget may choose: numbers of fewer scales, or of smaller or clipped ranges."""
    found = []
    if options.block < _LARGE_BLOCK:
        found.append(made.in_blocks(8, _LARGE_BLOCK, f"blocks of {_LARGE_BLOCK}"))
    if options.bits == 4 and options.block > LEAST_BLOCK:
        found.append(made.in_blocks(4, LEAST_BLOCK, f"clipped blocks of {LEAST_BLOCK}", rounding="clipped"))
    if options.bits == 4:
        found.append(made.in_blocks(4, options.block, "ranges by mse", rounding="clipped"))
    return found


def _scale_channels(
    model: FloatModel, products: Sequence[FloatProduct], seen: Mapping[str, Activation], options: QuantizationOptions
) -> None:
    factors = {}
    for data, users in by_activation(products).items():
        item = seen.get(data)
        if item is None or not all(user.is_matrix for user in users) or item.gram is None or item.means is None:
            continue
        joined = np.concatenate([user.matrix for user in users], axis=1)
        factors[data] = awq_factors(joined, item.gram, item.means, options.bits, options.block)
    scale_activations(model, factors)
