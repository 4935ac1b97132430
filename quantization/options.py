"""Options of `stepwell.quantize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from ..support.errors import OptionError

Method = Literal["static", "dynamic", "weights"]
RangeMethod = Literal["minmax", "percentile", "entropy", "mse"]
WeightMethod = Literal["rtn", "gptq", "awq"]
_CHOICES = {"method": Method, "ranges": RangeMethod, "algorithm": WeightMethod}
_BITS, LEAST_BLOCK, _GREATEST_BLOCK = (4, 8), 16, 1 << 15
"""Widths and block sizes: MatMulNBits takes 16 and more (ONNX Runtime, ContribOperators.md); the most is a choice."""


@dataclass(frozen=True)
class QuantizationOptions:
    """Options of a quantisation.

    Attributes:
        method: `static`: activations in 8 bits with scales from calibration, weights in 8 bits for each output channel;
            `dynamic`: the same, with scales of activations from each call; `weights`: weights only, in blocks.
        ranges: how `static` takes the range of an activation from its histogram. `minmax`: all values; `percentile`:
            leaves out `1 - percentile`; `entropy`: least Kullback-Leibler divergence (as TensorRT); `mse`: least mean
            square error.
        percentile: the share of values within the range of `percentile`.
        bits: width of weights in blocks, 4 or 8.
        block: number of weights along the reduction that share a scale, a power of two.
        symmetric: whether blocks have no zero point.
        algorithm: how weights in blocks are rounded. `rtn`: to nearest; `gptq`: errors are compensated in the weights
            not yet rounded (Frantar et al., arXiv 2210.17323); `awq`: channels with large activations are scaled up
            first (Lin et al., arXiv 2306.00978).
        smooth: exponent by which outliers of activations move into weights first, 0 to 1; 0 for none (SmoothQuant, Xiao
            et al., arXiv 2211.10438).
        cures: whether forms that fit the detected faults are tried for the products that have these: channels in float,
            outliers moved into the weights, other ranges, smaller blocks, GPTQ.
        exclude: names of nodes that stay in float.
        max_error: largest accepted error of the outputs: root mean square of the differences, relative to that of the
            float outputs; products that contribute most stay in float.
        max_kld: largest accepted mean Kullback-Leibler divergence of the first output, taken as logits.
        target_bytes: largest accepted number of bytes of the weights; products that contribute least are narrowed.
        samples: number of calibration samples on which errors are measured.
    """

    method: Method = "static"
    ranges: RangeMethod = "minmax"
    percentile: float = 0.9999
    bits: int = 4
    block: int = 32
    symmetric: bool = False
    algorithm: WeightMethod = "rtn"
    smooth: float = 0.0
    cures: bool = True
    exclude: Sequence[str] = ()
    max_error: float | None = None
    max_kld: float | None = None
    target_bytes: int | None = None
    samples: int = 8

    def __post_init__(self) -> None:
        """Checks all values.

        Raises:
            OptionError: a value is not allowed.
        """
        for name, allowed in _CHOICES.items():
            self._require(name, getattr(self, name) in get_args(allowed), f"one of {', '.join(get_args(allowed))}")
        self._require("percentile", 0.5 < self.percentile <= 1.0, "above 0.5, and 1 at most")
        self._require("bits", self.bits in _BITS, "4 or 8")
        is_power = self.block & (self.block - 1) == 0
        self._require(
            "block",
            is_power and LEAST_BLOCK <= self.block <= _GREATEST_BLOCK,
            f"a power of two from {LEAST_BLOCK} to {_GREATEST_BLOCK}",
        )
        self._require("smooth", 0.0 <= self.smooth <= 1.0, "0 to 1")
        for name in ("max_error", "max_kld", "target_bytes"):
            value = getattr(self, name)
            self._require(name, value is None or value > 0, "above 0")
        self._require("samples", self.samples >= 1, "1 or more")
        if self.smooth and self.method == "weights":
            raise OptionError("smooth moves outliers of activations, which method 'weights' leaves in float")
        if self.algorithm != "rtn" and self.method != "weights":
            raise OptionError(f"algorithm '{self.algorithm}' is for method 'weights'")

    def _require(self, name: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise OptionError(f"{name} is {getattr(self, name)!r}, and must be {allowed}")

    @property
    def has_budget(self) -> bool:
        """True if the widths of products are searched for."""
        return any(item is not None for item in (self.max_error, self.max_kld, self.target_bytes))

    def record(self) -> dict[str, object]:
        """The options as a record for JSON."""
        return {
            item.name: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            for item in fields(self)
            for value in [getattr(self, item.name)]
        }
