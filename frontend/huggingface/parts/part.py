"""`ModelPart`: a part of a model that is compiled as one program, built from the weights of a folder."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell.attention import AttentionOp
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from ...build import added, cast, emit, gathered, joined
from ...decoder_step import FLOAT, layer_caches, step_info
from ...errors import ModelError
from ...heads import merged_heads, split_heads
from ...imported import ModelInfo, ValueInfo


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


def grown(inputs: Mapping[str, ir.Value], layer: int, key: ir.Value, value: ir.Value) -> dict[str, ir.Value]:
    """Returns keys and values of all tokens, [batch, heads, past + length, depth], by the names of the outputs."""
    new = {f"{layer}.key": key, f"{layer}.value": value}
    return {f"present.{name}": joined([inputs[f"past.{name}"], rows], 2) for name, rows in new.items()}


def of_source(inputs: Mapping[str, ir.Value], layer: int) -> tuple[ir.Value, ir.Value]:
    """Returns the keys and values of the source that a layer attends to."""
    return inputs[f"cross.{layer}.key"], inputs[f"cross.{layer}.value"]


def decoder_info(
    name: str, layers: int, heads: int, depth: int, vocabulary: int, more: tuple[ValueInfo, ...] = ()
) -> ModelInfo:
    """Returns the inputs and outputs of the step of a decoder that also attends to a source.

    Keys and values of the source are inputs `cross.0.key` [batch, heads, source, depth] and so on; `more` inputs come
    last.
    """
    source = source_caches(layers, heads, depth, "source")
    return step_info(name, layer_caches(layers, heads, depth, depth), vocabulary, (*source, *more))


def source_caches(layers: int, heads: int, depth: int, length: str | int) -> tuple[ValueInfo, ...]:
    """Returns keys and values of the source of each layer as inputs or outputs."""
    return tuple(item.info("cross", length) for item in layer_caches(layers, heads, depth, depth))
