"""The plan of a quantisation: the widths that each product may have, and its numbers at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .blocks import BlockWeights, awq_factors, by_gptq, to_nearest
from .float_model import FloatModel, FloatProduct
from .observation import Activation
from .options import QuantizationOptions
from .preparation import by_activation, scale_activations
from .scales import ActivationScale, ChannelWeights, activation_scale

FOLLOWERS = frozenset(
    {
        *("Add", "AveragePool", "Concat", "Flatten", "GlobalAveragePool", "MaxPool", "Relu", "Reshape", "Slice"),
        *("Squeeze", "Transpose", "Unsqueeze"),
    }
)
"""Operators that read the narrow form of an activation if a product does, so that its wide form is not needed."""


@dataclass(frozen=True)
class Width:
    """One form of a product's weights.

    Attributes:
        name: `float`, `int8` or `int4`.
        weight: the weights that the product multiplies by in this form, in float.
        nbytes: bytes of the stored weights.
        stored: the numbers that are stored, in blocks or by channel; None for float.
    """

    name: str
    weight: np.ndarray
    nbytes: int
    stored: BlockWeights | ChannelWeights | None = None


@dataclass(frozen=True)
class ProductPlan:
    """A product and its forms, from wide to narrow; the first is float."""

    product: FloatProduct
    widths: Sequence[Width]


@dataclass
class Plan:
    """All that is needed to write a quantised model.

    Attributes:
        model: the prepared float model.
        options: the options.
        products: the products that are not excluded.
        scales: the scale of each activation; empty unless the method is `static`.
        levels: the chosen form of each product, an index of its widths.
    """

    model: FloatModel
    options: QuantizationOptions
    products: list[ProductPlan]
    scales: dict[str, ActivationScale] = field(default_factory=dict)
    levels: list[int] = field(default_factory=list)

    def narrow_activations(self, levels: Sequence[int]) -> set[str]:
        """Returns the activations that a product takes in 8 bits."""
        if self.options.method == "weights":
            return set()
        return {item.product.data for item, level in zip(self.products, levels, strict=True) if level}

    def nbytes(self, levels: Sequence[int]) -> int:
        """Returns the bytes of the weights of all products."""
        return sum(item.widths[level].nbytes for item, level in zip(self.products, levels, strict=True))


def make_plan(model: FloatModel, options: QuantizationOptions, seen: Mapping[str, Activation]) -> Plan:
    """Chooses scales, and quantises the weights in every form that products may have."""
    products = [item for item in model.products if item.name not in options.exclude]
    if options.method == "weights":
        if options.algorithm == "awq":
            _scale_channels(model, products, seen, options)
            products = [item for item in model.products if item.name not in options.exclude]
        widths = (8, 4) if options.has_budget and options.bits == 4 else (options.bits,)
        plans = [
            ProductPlan(item, (_wide(item), *(_in_blocks(item, bits, options, seen) for bits in widths)))
            for item in products
            if item.is_matrix
        ]
    else:
        plans = [ProductPlan(item, (_wide(item), _by_channel(item))) for item in products]
    scales = {}
    if options.method == "static":
        scales = {
            name: activation_scale(seen[name].histogram, options.ranges, options.percentile)
            for name in by_activation([item.product for item in plans])
        }
    return Plan(model, options, plans, scales, [len(item.widths) - 1 for item in plans])


def _wide(product: FloatProduct) -> Width:
    return Width("float", product.weight, product.weight.nbytes)


def _by_channel(product: FloatProduct) -> Width:
    found = ChannelWeights.of(product.matrix)
    return Width("int8", product.weight_of(found.values), found.nbytes, found)


def _in_blocks(product: FloatProduct, bits: int, options: QuantizationOptions, seen: Mapping[str, Activation]) -> Width:
    matrix, block = product.matrix, options.block
    gram = seen[product.data].gram if options.algorithm == "gptq" else None
    if gram is not None:
        found = by_gptq(matrix, gram, bits, block, options.symmetric)
    else:
        found = to_nearest(matrix, bits, block, options.symmetric)
    return Width(f"int{bits}", product.weight_of(found.values), found.nbytes, found)


def _scale_channels(
    model: FloatModel, products: Sequence[FloatProduct], seen: Mapping[str, Activation], options: QuantizationOptions
) -> None:
    factors = {}
    for data, users in by_activation(products).items():
        item = seen[data]
        if all(user.is_matrix for user in users) and item.gram is not None and item.means is not None:
            joined = np.concatenate([user.matrix for user in users], axis=1)
            factors[data] = awq_factors(joined, item.gram, item.means, options.bits, options.block)
    scale_activations(model, factors)
