"""Forms of products: narrow weights, the way the activation becomes narrow, and the channels that stay wide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .blocks import BlockWeights, by_gptq, by_least_error, to_nearest
from .float_model import FloatProduct
from .options import QuantizationOptions
from .scales import ActivationScale, ChannelWeights

WeightRounding = Literal["nearest", "clipped", "compensated"]
"""To the nearest number of the block's range; of the range with the least error; or by GPTQ."""
_Stored = BlockWeights | ChannelWeights


@dataclass(frozen=True, eq=False)
class NarrowActivation:
    """A way in which a product takes its activation in 8 bits.

    Attributes:
        scale: the scale; None if each call computes it.
        factors: the factor of each channel that the activation is divided by first; None for none.
    """

    scale: ActivationScale | None = None
    factors: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Width:
    """One form of a product's weights.

    Attributes:
        name: `float`, `int8` or `int4`, and the cure if there is one; differs from the names of the other forms.
        weight: the weights that the product multiplies by in this form, in float.
        nbytes: bytes of the stored weights.
        bits: bits of a stored number.
        stored: the numbers that are stored, in blocks or by channel; None for float.
        activation: the way in which the activation becomes narrow; None if it stays in float.
        wide: the input channels whose weights and activation stay in float.
        cure: the change against the plain form of the same width; empty for the plain one.
    """

    name: str
    weight: np.ndarray
    nbytes: int
    bits: int = 32
    stored: _Stored | None = None
    activation: NarrowActivation | None = None
    wide: tuple[int, ...] = ()
    cure: str = ""


def in_float(product: FloatProduct) -> Width:
    """Returns the form without any change."""
    return Width("float", product.weight, product.weight.nbytes)


@dataclass
class Narrower:
    """Makes narrow forms of a product.

    Attributes:
        product: the product.
        options: the options.
        gram: x^T x of the activation; None if it is not known.
    """

    product: FloatProduct
    options: QuantizationOptions
    gram: np.ndarray | None = field(default=None, repr=False)

    def by_channel(
        self, activation: NarrowActivation | None, cure: str = "", wide: tuple[int, ...] = (), bits: int = 8
    ) -> Width:
        """Returns the form in 8 bits with a scale for each output channel."""
        matrix = self.product.matrix.copy()
        factors = activation.factors if activation is not None else None
        rows = self.product.rows_of(wide)
        if factors is not None:
            matrix *= self.product.by_row(factors)[:, None]
        matrix[rows] = 0.0
        found = ChannelWeights.of(matrix)
        values = found.values
        nbytes = found.nbytes + rows.size * 4 * matrix.shape[1]
        if factors is not None:
            values = values / self.product.by_row(factors)[:, None]
            nbytes += factors.nbytes
        values[rows] = self.product.matrix[rows]
        name = f"int{bits}, {cure}" if cure else f"int{bits}"
        return Width(name, self.product.weight_of(values), nbytes, bits, found, activation, wide, cure)

    def in_blocks(
        self, bits: int, block: int, cure: str = "", wide: tuple[int, ...] = (), rounding: WeightRounding = "nearest"
    ) -> Width:
        """Returns a form of the weights alone, with a scale for each block of a column."""
        matrix = self.product.matrix.copy()
        rows = self.product.rows_of(wide)
        matrix[rows] = 0.0
        if rounding == "compensated" and self.gram is not None:
            found = by_gptq(matrix, self.gram, bits, block, self.options.symmetric)
        elif rounding == "clipped":
            found = by_least_error(matrix, bits, block, self.options.symmetric)
        else:
            found = to_nearest(matrix, bits, block, self.options.symmetric)
        values = found.values
        values[rows] = self.product.matrix[rows]
        name = f"int{bits}, {cure}" if cure else f"int{bits}"
        nbytes = found.nbytes + rows.size * 4 * matrix.shape[1]
        return Width(name, self.product.weight_of(values), nbytes, bits, found, None, wide, cure)
