"""Steps of models whose texts have a state of fixed size, by one token of each text.

input_ids [batch], state.0.conv [batch, ..], .. --> logits [batch, vocabulary], next.0.conv [batch, ..], ..
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar

from mlir import ir

from ...decoder_step import FLOAT, INDEX
from ...imported import ModelInfo, ValueInfo
from .part import ModelPart

STATE, NEXT = "state.", "next."
"""Beginnings of the names of inputs with the state, and of outputs that continue them."""


class RecurrentStep(ModelPart):
    """A step by one token.

    Attributes:
        table: the name of the table of embeddings.
        initial: the number that fills some parts of the state of a text without tokens; others are filled with 0.
    """

    table: ClassVar[str] = ""
    initial: ClassVar[Mapping[str, float]] = {}

    @property
    @abc.abstractmethod
    def layers(self) -> int:
        """Number of layers."""

    @property
    @abc.abstractmethod
    def state(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the parts of the state of a layer, without the batch."""

    def info(self, name: str) -> ModelInfo:
        """See `ModelPart`."""
        parts = [(f"{layer}.{part}", shape) for layer in range(self.layers) for part, shape in self.state.items()]
        given, made = (
            tuple(ValueInfo(f"{when}{part}", FLOAT, ("batch", *shape)) for part, shape in parts)
            for when in (STATE, NEXT)
        )
        tokens = ValueInfo("input_ids", INDEX, ("batch",))
        logits = ValueInfo("logits", FLOAT, ("batch", len(self.array(self.table))))
        return ModelInfo(name, (tokens, *given), (logits, *made))

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        value, found = self.embedded(self.table, inputs["input_ids"]), dict[str, ir.Value]()
        for layer in range(self.layers):
            state = {part: inputs[f"{STATE}{layer}.{part}"] for part in self.state}
            value, following = self.layer(layer, value, state)
            found |= {f"{NEXT}{layer}.{part}": following[part] for part in self.state}
        return {"logits": self.logits(value), **found}

    @abc.abstractmethod
    def layer(self, layer: int, value: ir.Value, state: Mapping[str, ir.Value]) -> tuple[ir.Value, dict[str, ir.Value]]:
        """Returns the result of a layer for [batch, hidden], and its next state."""

    @abc.abstractmethod
    def logits(self, value: ir.Value) -> ir.Value:
        """Returns the logits for the result of the last layer."""
