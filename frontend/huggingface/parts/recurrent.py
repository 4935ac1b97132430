"""Steps of models whose texts have a state of fixed size.

input_ids [batch, length], state.0.conv [batch, ..], .. --> logits [batch, vocabulary], next.0.conv [batch, ..], ..

Products take all tokens of a step at once. The recurrence between tokens is a loop over them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from mlir import ir

from ....passes.graph.values import dimension
from ...build import gathered, joined, known_dim, part_along, transposed
from ...decoder_step import FLOAT, INDEX
from ...imported import ModelInfo, ValueInfo
from ...loops import BATCH_SECOND, Stack, counted, row
from .part import ModelPart

STATE, NEXT = "state.", "next."
"""Beginnings of the names of inputs with the state, and of outputs that continue them."""


_TOKENS = 1
"""The dimension of tokens in values [batch, length, elements]."""

TokenBody = Callable[[Sequence[ir.Value], Sequence[ir.Value]], tuple[Sequence[ir.Value], ir.Value]]
"""`body(values of a token, state)` returns the next state, and the result for the token."""


class RecurrentStep(ModelPart):
    """A step by one or more tokens, with logits after the last one.

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
        tokens = ValueInfo("input_ids", INDEX, ("batch", "length"))
        logits = ValueInfo("logits", FLOAT, ("batch", len(self.array(self.table))))
        return ModelInfo(name, (tokens, *given), (logits, *made))

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        value, found = self.embedded(self.table, inputs["input_ids"]), dict[str, ir.Value]()
        for layer in range(self.layers):
            state = {part: inputs[f"{STATE}{layer}.{part}"] for part in self.state}
            value, following = self.layer(layer, value, state)
            found |= {f"{NEXT}{layer}.{part}": following[part] for part in self.state}
        last = dimension(known_dim(value, _TOKENS, "the number of new tokens") - 1)
        return {"logits": self.logits(gathered(value, last, _TOKENS)), **found}

    @abc.abstractmethod
    def layer(self, layer: int, value: ir.Value, state: Mapping[str, ir.Value]) -> tuple[ir.Value, dict[str, ir.Value]]:
        """Returns the result of a layer for [batch, length, hidden], and its next state."""

    @abc.abstractmethod
    def logits(self, value: ir.Value) -> ir.Value:
        """Returns the logits for the result of the last layer, [batch, hidden]."""


def over_tokens(
    values: Sequence[ir.Value], state: Sequence[ir.Value], body: TokenBody
) -> tuple[ir.Value, Sequence[ir.Value]]:
    """Runs a recurrence token by token.

    Args:
        values: what an iteration reads, each [batch, length, elements].
        state: the state before the first token.
        body: builds an iteration, which reads values [batch, elements].

    Returns:
        The results [batch, length, elements], and the state after the last token.
    """
    length = known_dim(values[0], _TOKENS, "the number of new tokens")
    lines = [transposed(value, BATCH_SECOND) for value in values]

    def iteration(number: ir.Value, carried: Sequence[ir.Value]) -> tuple[Sequence[ir.Value], list[Stack]]:
        following, result = body([row(line, number) for line in lines], carried)
        return following, [Stack([(number, result)])]

    final, (results,) = counted(dimension(length), state, iteration)
    return transposed(results, BATCH_SECOND), final


def with_earlier(earlier: ir.Value, value: ir.Value) -> tuple[list[ir.Value], ir.Value]:
    """Returns the values of tokens at some distances before each token.

    Args:
        earlier: the values of the last `count` tokens before a step, [batch, count, elements].
        value: those of its tokens, [batch, length, elements].

    Returns:
        The values at the distances `count` to 0, and those of the last `count` tokens.
    """
    count, length = (known_dim(item, _TOKENS, "the number of tokens") for item in (earlier, value))
    whole = joined([earlier, value], _TOKENS)
    windows = [part_along(whole, _TOKENS, first, first + length) for first in range(count)]
    return [*windows, value], part_along(whole, _TOKENS, length, length + count)
