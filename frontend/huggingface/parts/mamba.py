"""Mamba: layers whose state decays by what they read (Gu and Dao 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, ExpOp, MulOp
from ....dialects.stepwell.elementwise.activation import SiluOp, SoftplusOp
from ....dialects.stepwell.movement import ExpandDimsOp, SqueezeOp
from ...build import emit, joined, part_along, summed
from ...errors import ModelError
from .recurrent import RecurrentStep


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
        return {"conv": (inner, self.setting("conv_kernel")), "recurrent": (inner, self.setting("state_size"))}

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
        read, gate = part_along(projected, 1, 0, inner), part_along(projected, 1, inner, 2 * inner)
        kernel, width = self.setting("conv_kernel"), self.setting("state_size")
        window = joined([part_along(state["conv"], 2, 1, kernel), emit(ExpandDimsOp, read, axes=(2,))], 2)
        taps = self.parameter(f"{name}.conv1d.taps", np.ascontiguousarray(self.floats(f"{name}.conv1d.weight")[:, 0]))
        mixed = summed(emit(MulOp, window, taps), 2)
        if self.has(f"{name}.conv1d.bias"):
            mixed = emit(AddOp, mixed, self.parameter(f"{name}.conv1d.bias"))
        mixed = emit(SiluOp, mixed)
        chosen = self.linear(f"{name}.x_proj", mixed)
        rank = self.array(f"{name}.dt_proj.weight").shape[1]
        time, entering, leaving = (
            part_along(chosen, 1, start, end)
            for start, end in ((0, rank), (rank, rank + width), (rank + width, rank + 2 * width))
        )
        time = emit(ExpandDimsOp, emit(SoftplusOp, self.linear(f"{name}.dt_proj", time)), axes=(2,))
        decay = self.parameter(f"{name}.A", -np.exp(self.floats(f"{name}.A_log")))
        kept = emit(MulOp, emit(ExpOp, emit(MulOp, time, decay)), state["recurrent"])
        added = emit(
            MulOp, emit(MulOp, time, emit(ExpandDimsOp, entering, axes=(1,))), emit(ExpandDimsOp, mixed, axes=(2,))
        )
        recurrent = emit(AddOp, kept, added)
        seen = emit(SqueezeOp, emit(MatmulOp, recurrent, emit(ExpandDimsOp, leaving, axes=(2,))), axes=(2,))
        seen = emit(AddOp, seen, emit(MulOp, mixed, self.parameter(f"{name}.D")))
        result = self.linear(f"{name}.out_proj", emit(MulOp, seen, emit(SiluOp, gate)))
        return emit(AddOp, value, result), {"conv": window, "recurrent": recurrent}

    def logits(self, value: ir.Value) -> ir.Value:
        """See `RecurrentStep`."""
        normal = self.rms_norm("backbone.norm_f", value, self._epsilon)
        return self.linear("lm_head" if self.has("lm_head.weight") else "backbone.embeddings", normal)
