"""Mamba: layers whose state decays by what they read (Gu and Dao 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AddOp, ExpOp, MulOp
from ....dialects.stepwell.elementwise.activation import SiluOp, SoftplusOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ...build import added, chained, emit, part_along, summed
from ...errors import ModelError
from .recurrent import RecurrentStep, over_tokens, with_earlier


class MambaStep(RecurrentStep):
    """A step of Mamba. The state of a layer is the last inputs of its convolution, and its recurrent state."""

    table: ClassVar[str] = "backbone.embeddings.weight"

    @property
    def layers(self) -> int:
        """See `RecurrentStep`."""
        return self.setting("num_hidden_layers", "n_layer")

    @property
    def state(self) -> Mapping[str, tuple[int, ...]]:
        """See `RecurrentStep`."""
        inner = self._inner
        return {"conv": (self.setting("conv_kernel") - 1, inner), "recurrent": (inner, self.setting("state_size"))}

    @property
    def _inner(self) -> int:
        return self.array("backbone.layers.0.mixer.D").shape[0]

    @property
    def _epsilon(self) -> float:
        return self.number("layer_norm_epsilon", 1e-5)

    def layer(self, layer: int, value: ir.Value, state: Mapping[str, ir.Value]) -> tuple[ir.Value, dict[str, ir.Value]]:
        """See `RecurrentStep`."""
        if self._config.get("hidden_act", "silu") != "silu":
            raise ModelError(f"has the activation '{self._config['hidden_act']}'; supported is silu")
        name, inner = f"backbone.layers.{layer}.mixer", self._inner
        projected = self.linear(f"{name}.in_proj", self.rms_norm(f"backbone.layers.{layer}.norm", value, self._epsilon))
        read, gate = (part_along(projected, 2, start, start + inner) for start in (0, inner))
        mixed, window = self._convolved(f"{name}.conv1d", state["conv"], read)
        chosen, width = self.linear(f"{name}.x_proj", mixed), self.setting("state_size")
        rank = self.array(f"{name}.dt_proj.weight").shape[1]
        time, entering, leaving = (
            part_along(chosen, 2, start, end)
            for start, end in ((0, rank), (rank, rank + width), (rank + width, rank + 2 * width))
        )
        time = emit(SoftplusOp, self.linear(f"{name}.dt_proj", time))
        decay = self.parameter(f"{name}.A", -np.exp(self.floats(f"{name}.A_log")))

        def read_token(values: Sequence[ir.Value], state: Sequence[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            time, share, entering, leaving = values
            (recurrent,), time = state, emit(ExpandDimsOp, time, axes=(2,))
            kept = emit(MulOp, emit(ExpOp, emit(MulOp, time, decay)), recurrent)
            entered = emit(MulOp, emit(ExpandDimsOp, share, axes=(2,)), emit(ExpandDimsOp, entering, axes=(1,)))
            recurrent = emit(AddOp, kept, entered)
            return [recurrent], summed(emit(MulOp, recurrent, emit(ExpandDimsOp, leaving, axes=(1,))), 2)

        values = [time, emit(MulOp, time, mixed), entering, leaving]
        seen, (recurrent,) = over_tokens(values, [state["recurrent"]], read_token)
        seen = emit(AddOp, seen, emit(MulOp, mixed, self.parameter(f"{name}.D")))
        result = self.linear(f"{name}.out_proj", emit(MulOp, seen, emit(SiluOp, gate)))
        return emit(AddOp, value, result), {"conv": window, "recurrent": recurrent}

    def _convolved(self, name: str, earlier: ir.Value, value: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns the convolution of each channel over tokens, and what it reads of them for the next step."""
        weight, (parts, window) = self.floats(f"{name}.weight"), with_earlier(earlier, value)
        taps = [self.parameter(f"{name}.{tap}", weight[:, 0, tap].copy()) for tap in range(len(parts))]
        mixed = chained(AddOp, [emit(MulOp, *pair) for pair in zip(parts, taps, strict=True)])
        mixed = added(mixed, self.parameter(f"{name}.bias") if self.has(f"{name}.bias") else None)
        return emit(SiluOp, mixed), window

    def logits(self, value: ir.Value) -> ir.Value:
        """See `RecurrentStep`."""
        normal = self.rms_norm("backbone.norm_f", value, self._epsilon)
        return self.linear("lm_head" if self.has("lm_head.weight") else "backbone.embeddings", normal)
