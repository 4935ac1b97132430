"""`ModelPart`: a part of a model that is compiled as one program, built from the weights of a folder."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.dims import Dim
from ....dialects.stepwell.attention import AttentionOp
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, AndOp, GreaterEqualOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from ....passes.graph.values import dimension
from ...build import added, cast, emit, gathered, joined, numbered
from ...errors import ModelError
from ...heads import merged_heads, split_heads
from ...imported import ModelInfo, ValueInfo

FLOAT, INDEX = np.dtype(np.float32), np.dtype(np.int64)


class ModelPart(abc.ABC):
    """A part of a model.

    Attributes:
        parameters: the weights that its ops name.
    """

    def __init__(self, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Takes a folder.

        Args:
            config: the contents of `config.json`.
            arrays: the weights by name.
        """
        self._config, self._arrays = config, arrays
        self.parameters: dict[str, np.ndarray] = {}

    @abc.abstractmethod
    def info(self, name: str) -> ModelInfo:
        """Returns the inputs and outputs."""

    @abc.abstractmethod
    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """Builds the ops at the insertion point; returns the outputs by name."""

    def setting(self, *names: str, default: int | None = None) -> int:
        """Returns the first of some settings that the config has.

        Raises:
            ModelError: it has none, or not a number.
        """
        found = next((self._config[name] for name in names if self._config.get(name) is not None), default)
        if not isinstance(found, int) or isinstance(found, bool):
            raise ModelError(f"config.json lacks the number '{names[0]}'")
        return found

    def number(self, name: str, default: float) -> float:
        """Returns a setting that is a number."""
        return float(self._config.get(name, default))

    def array(self, name: str) -> np.ndarray:
        """Returns a weight as it is stored.

        Raises:
            ModelError: there is none, or it is of a type that is not supported.
        """
        if name not in self._arrays:
            raise ModelError(f"lacks the tensor '{name}'")
        found = self._arrays[name]
        if found.dtype.name not in ("float32", "float16", "bfloat16"):
            raise ModelError(f"the tensor '{name}' has the type {found.dtype}, which is not supported")
        return found

    def floats(self, name: str) -> np.ndarray:
        """Returns a weight in f32."""
        return self.array(name).astype(FLOAT, copy=False)

    def has(self, name: str) -> bool:
        """Returns whether there is a weight of a name."""
        return name in self._arrays

    def parameter(self, name: str, array: np.ndarray | None = None) -> ir.Value:
        """Returns a weight, or the array that takes its name."""
        kept = self.parameters.setdefault(name, self.floats(name) if array is None else array)
        with ir.Location.name(name):
            return ParameterOp(name=name, shape=kept.shape, dtype=kept.dtype).operation.result

    def linear(self, name: str, value: ir.Value) -> ir.Value:
        """Multiplies by a matrix [results, inputs], in the type in which it is stored, and adds the bias if any."""
        weight = self.parameter(f"{name}.weight", self.array(f"{name}.weight"))
        with ir.Location.name(name):
            product = emit(MatmulOp, value, cast(weight, FLOAT), transpose_rhs=True)
            return added(product, self.parameter(f"{name}.bias") if self.has(f"{name}.bias") else None)

    def layer_norm(self, name: str, value: ir.Value, epsilon: float = 1e-5) -> ir.Value:
        """Returns the layer norm of rows."""
        scale, offset = (self.parameter(f"{name}.{part}") for part in ("weight", "bias"))
        return emit(LayerNormOp, value, scale, offset, axis=-1, epsilon=epsilon)

    def rms_norm(self, name: str, value: ir.Value, epsilon: float) -> ir.Value:
        """Returns the norm of rows by the root of their mean square."""
        return emit(RmsNormOp, value, self.parameter(f"{name}.weight"), axis=-1, epsilon=epsilon)

    def embedded(self, name: str, tokens: ir.Value) -> ir.Value:
        """Returns the rows of a table for some tokens, f32."""
        return cast(gathered(self.parameter(name, self.array(name)), tokens, 0), FLOAT)

    def heads(self, name: str, value: ir.Value, count: int) -> ir.Value:
        """Returns a projection as [batch, heads, rows, depth]."""
        return split_heads(self.linear(name, value), count)

    def attended(
        self, name: str, query: ir.Value, key: ir.Value, value: ir.Value, mask: ir.Value | None, scale: float
    ) -> ir.Value:
        """Returns the projection of what heads attend to; `name` is that of the projection."""
        found = emit(AttentionOp, query, key, value, mask, scale=scale, zero_empty=True)
        return self.linear(name, merged_heads(found))


def grown(past: ir.Value, new: ir.Value) -> ir.Value:
    """Returns keys or values of all tokens, [batch, heads, past + length, depth]."""
    return joined([past, new], 2)


def causal_mask(past: Dim, length: Dim, starts: ir.Value) -> ir.Value:
    """Returns a mask [batch, 1, length, past + length] that is true for earlier tokens of the same text."""
    rows = emit(ExpandDimsOp, emit(AddOp, numbered(length), dimension(past)), axes=(0, 1, 3))
    columns, first = numbered(past + length), emit(ExpandDimsOp, starts, axes=(1, 2, 3))
    return emit(AndOp, emit(GreaterEqualOp, rows, columns), emit(GreaterEqualOp, columns, first))


def decoder_info(name: str, layers: int, heads: int, depth: int, vocabulary: int) -> ModelInfo:
    """Returns the inputs and outputs of a decoder that also attends to a source, as those of GGUF decoders.

    Keys and values of the source are inputs `cross.0.key` [batch, heads, source, depth] and so on.
    """

    def caches(when: str, length: str) -> tuple[ValueInfo, ...]:
        return source_caches(layers, heads, depth, length, when)

    tokens = ValueInfo("input_ids", INDEX, ("batch", "length"))
    selected, starts = ValueInfo("selected", INDEX, ("outputs",)), ValueInfo("starts", INDEX, ("batch",))
    logits = ValueInfo("logits", FLOAT, ("batch", "outputs", vocabulary))
    inputs = (tokens, selected, starts, *caches("past", "past"), *caches("cross", "source"))
    return ModelInfo(name, inputs, (logits, *caches("present", "past + length")))


def source_caches(layers: int, heads: int, depth: int, length: str | int, when: str = "cross") -> tuple[ValueInfo, ...]:
    """Returns keys and values of each layer as inputs or outputs."""
    parts = (f"{when}.{layer}.{part}" for layer in range(layers) for part in ("key", "value"))
    return tuple(ValueInfo(part, FLOAT, ("batch", heads, length, depth)) for part in parts)
