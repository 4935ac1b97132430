"""RWKV 4: layers that average values, whose weights fall with the distance of tokens (Peng et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AddOp, DivOp, ExpOp, MaximumOp, MulOp, SigmoidOp, SubOp
from ....dialects.stepwell.elementwise.activation import ReluOp
from ...build import emit, scalar
from .recurrent import RecurrentStep, over_tokens, with_earlier

_SUMS = ("numerator", "denominator", "greatest")
"""The parts of a state that the average of values needs."""


class RwkvStep(RecurrentStep):
    """A step of RWKV.

    The state of a layer is what its two halves read at the last token, and the sums of weighted values and of weights,
    both divided by the exponential of the greatest exponent.
    """

    table: ClassVar[str] = "rwkv.embeddings.weight"
    initial: ClassVar[Mapping[str, float]] = {"greatest": -1e38}

    @property
    def layers(self) -> int:
        """See `RecurrentStep`."""
        return self.setting("num_hidden_layers")

    @property
    def state(self) -> Mapping[str, tuple[int, ...]]:
        """See `RecurrentStep`."""
        hidden, inner = self.setting("hidden_size"), self.array("rwkv.blocks.0.attention.time_decay").shape[0]
        sums = dict.fromkeys(_SUMS, (inner,))
        return {"mixed": (1, hidden), "opened": (1, hidden), **sums}

    def layer(self, layer: int, value: ir.Value, state: Mapping[str, ir.Value]) -> tuple[ir.Value, dict[str, ir.Value]]:
        """See `RecurrentStep`."""
        scope = f"rwkv.blocks.{layer}"
        if self.has(f"{scope}.pre_ln.weight"):
            value = self._norm(f"{scope}.pre_ln", value)
        normal, name = self._norm(f"{scope}.ln1", value), f"{scope}.attention"
        (before, _), mixed = with_earlier(state["mixed"], normal)
        key, read, receptance = (
            self.linear(f"{name}.{part}", self._mixed(f"{name}.time_mix_{part}", normal, before))
            for part in ("key", "value", "receptance")
        )
        average, sums = self._averaged(name, key, read, state)
        result = self.linear(f"{name}.output", emit(MulOp, emit(SigmoidOp, receptance), average))
        value, following = emit(AddOp, value, self._scaled(layer, result)), {"mixed": mixed, **sums}
        normal, name = self._norm(f"{scope}.ln2", value), f"{scope}.feed_forward"
        (before, _), opened = with_earlier(state["opened"], normal)
        key, receptance = (
            self.linear(f"{name}.{part}", self._mixed(f"{name}.time_mix_{part}", normal, before))
            for part in ("key", "receptance")
        )
        positive = emit(ReluOp, key)
        result = self.linear(f"{name}.value", emit(MulOp, positive, positive))
        value = emit(AddOp, value, self._scaled(layer, emit(MulOp, emit(SigmoidOp, receptance), result)))
        if self._every and (layer + 1) % self._every == 0:
            value = emit(MulOp, value, scalar(0.5, value))
        return value, {**following, "opened": opened}

    def _averaged(
        self, name: str, key: ir.Value, read: ir.Value, state: Mapping[str, ir.Value]
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """Returns the weighted averages of the values of all tokens up to each one, and the sums behind the last."""
        decay = self.parameter(f"{name}.decay", -np.exp(self.floats(f"{name}.time_decay")))
        first = self.parameter(f"{name}.time_first")

        def read_token(values: Sequence[ir.Value], sums: Sequence[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            (key, read), (numerator, denominator, greatest) = values, sums
            older, newer, _ = _weights(greatest, emit(AddOp, key, first))
            above = emit(AddOp, emit(MulOp, older, numerator), emit(MulOp, newer, read))
            below = emit(AddOp, emit(MulOp, older, denominator), newer)
            kept, entered, greatest = _weights(emit(AddOp, greatest, decay), key)
            numerator = emit(AddOp, emit(MulOp, kept, numerator), emit(MulOp, entered, read))
            denominator = emit(AddOp, emit(MulOp, kept, denominator), entered)
            return [numerator, denominator, greatest], emit(DivOp, above, below)

        average, sums = over_tokens([key, read], [state[part] for part in _SUMS], read_token)
        return average, dict(zip(_SUMS, sums, strict=True))

    def _mixed(self, name: str, value: ir.Value, before: ir.Value) -> ir.Value:
        """Returns the mixture of this token and the last one."""
        share = self.floats(name).reshape(-1)
        own, other = self.parameter(name, share), self.parameter(f"{name}.other", 1 - share)
        return emit(AddOp, emit(MulOp, value, own), emit(MulOp, before, other))

    def _norm(self, name: str, value: ir.Value) -> ir.Value:
        return self.layer_norm(name, value, self.number("layer_norm_epsilon", 1e-5))

    @property
    def _every(self) -> int:
        """Number of layers after which values are halved, so that they stay small."""
        return self.setting("rescale_every", default=6)

    def _scaled(self, layer: int, value: ir.Value) -> ir.Value:
        """Returns what a layer adds, halved as often as its input was."""
        halved = layer // self._every if self._every else 0
        return emit(MulOp, value, scalar(0.5**halved, value)) if halved else value

    def logits(self, value: ir.Value) -> ir.Value:
        """See `RecurrentStep`."""
        return self.linear("head" if self.has("head.weight") else "rwkv.embeddings", self._norm("rwkv.ln_out", value))


def _weights(first: ir.Value, second: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Returns the exponentials of two values, both divided by that of the greater one, and this one."""
    greatest = emit(MaximumOp, first, second)
    return emit(ExpOp, emit(SubOp, first, greatest)), emit(ExpOp, emit(SubOp, second, greatest)), greatest
