"""Whisper: an encoder of spectra and a decoder of text (Radford et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, MulOp
from ....dialects.stepwell.elementwise.activation import GeluOp
from ....dialects.stepwell.movement import DynamicReshapeOp, PadOp, SqueezeOp
from ...build import chained, emit, gathered, integers, known_dim, part_along, scalar, transposed
from ...decoder_step import FLOAT, StepPositions, text_positions
from ...errors import ModelError
from ...imported import ModelInfo, ValueInfo
from .part import ModelPart, decoder_info, grown, of_source, source_caches


class _Whisper(ModelPart):
    """Sizes and layers that the encoder and the decoder share."""

    @property
    def _heads(self) -> int:
        return self.setting("decoder_attention_heads")

    @property
    def _depth(self) -> int:
        return self.setting("d_model") // self._heads

    @property
    def _layers(self) -> int:
        return self.setting("decoder_layers")

    def _opened(self, scope: str, value: ir.Value) -> ir.Value:
        """Adds the result of the perceptron."""
        if self._config.get("activation_function", "gelu") != "gelu":
            raise ModelError(f"has the activation '{self._config['activation_function']}'; supported is gelu")
        opened = emit(GeluOp, self.linear(f"{scope}.fc1", self.layer_norm(f"{scope}.final_layer_norm", value)))
        return emit(AddOp, value, self.linear(f"{scope}.fc2", opened))


class WhisperEncoder(_Whisper):
    """The encoder, and the keys and values that each layer of the decoder computes from its result.

    Log-mel spectra [1, bins, 2 * source] --> cross.0.key [1, heads, source, depth], ..
    """

    def info(self, name: str) -> ModelInfo:
        """See `ModelPart`."""
        source = self.setting("max_source_positions")
        features = ValueInfo("features", FLOAT, ("batch", self.setting("num_mel_bins"), 2 * source))
        return ModelInfo(name, (features,), source_caches(self._layers, self._heads, self._depth, source))

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        rows, source = transposed(inputs["features"], (0, 2, 1)), self.setting("max_source_positions")
        around = emit(PadOp, rows, low=(0, 1, 0), high=(0, 1, 0))
        taps = [part_along(around, 1, tap, tap + 2 * source) for tap in range(3)]
        value = emit(GeluOp, self._convolved("model.encoder.conv1", taps))
        pairs = emit(DynamicReshapeOp, value, integers([0, source, 2, -1]))
        even, odd = (emit(SqueezeOp, part_along(pairs, 2, at, at + 1), axes=(2,)) for at in range(2))
        before = part_along(emit(PadOp, odd, low=(0, 1, 0), high=(0, 0, 0)), 1, 0, source)
        value = emit(GeluOp, self._convolved("model.encoder.conv2", [before, even, odd]))
        value = emit(AddOp, value, self.parameter("model.encoder.embed_positions.weight"))
        heads = self.setting("encoder_attention_heads")
        scale = (self.setting("d_model") // heads) ** -0.5
        for layer in range(self.setting("encoder_layers")):
            scope = f"model.encoder.layers.{layer}"
            normal = self.layer_norm(f"{scope}.self_attn_layer_norm", value)
            parts = [self.heads(f"{scope}.self_attn.{part}_proj", normal, heads) for part in "qkv"]
            value = emit(AddOp, value, self.attended(f"{scope}.self_attn.out_proj", *parts, None, scale))
            value = self._opened(scope, value)
        value, found = self.layer_norm("model.encoder.layer_norm", value), dict[str, ir.Value]()
        for layer in range(self._layers):
            name = f"model.decoder.layers.{layer}.encoder_attn"
            for part, letter in (("key", "k"), ("value", "v")):
                found[f"cross.{layer}.{part}"] = self.heads(f"{name}.{letter}_proj", value, self._heads)
        return found

    def _convolved(self, name: str, taps: list[ir.Value]) -> ir.Value:
        """Returns a convolution over time by its taps, each [batch, time, channels]."""
        weight = self.floats(f"{name}.weight")
        products = [
            emit(MatmulOp, tap, self.parameter(f"{name}.weight.{at}", np.ascontiguousarray(weight[:, :, at].T)))
            for at, tap in enumerate(taps)
        ]
        return emit(AddOp, chained(AddOp, products), self.parameter(f"{name}.bias"))


class WhisperDecoder(_Whisper):
    """A step of the decoder, which attends to keys and values of the spectra."""

    def info(self, name: str) -> ModelInfo:
        """See `ModelPart`."""
        vocabulary = len(self.array("model.decoder.embed_tokens.weight"))
        return decoder_info(name, self._layers, self._heads, self._depth, vocabulary)

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        past = known_dim(inputs["past.0.key"], 2, "the length of the past")
        length = known_dim(inputs["input_ids"], 1, "the number of new tokens")
        mask, scale = StepPositions.of(past, length, inputs["starts"]).mask(), self._depth**-0.5
        found: dict[str, ir.Value] = {}
        value = self.embedded("model.decoder.embed_tokens.weight", inputs["input_ids"])
        if self._config.get("scale_embedding"):
            value = emit(MulOp, value, scalar(self.setting("d_model") ** 0.5, value))
        places = text_positions(past, length, inputs["starts"])
        value = emit(AddOp, value, self.embedded("model.decoder.embed_positions.weight", places))
        for layer in range(self._layers):
            scope = f"model.decoder.layers.{layer}"
            normal = self.layer_norm(f"{scope}.self_attn_layer_norm", value)
            query, key, new = (self.heads(f"{scope}.self_attn.{part}_proj", normal, self._heads) for part in "qkv")
            kept = grown(inputs, layer, key, new)
            found |= kept
            value = emit(AddOp, value, self.attended(f"{scope}.self_attn.out_proj", query, *kept.values(), mask, scale))
            normal = self.layer_norm(f"{scope}.encoder_attn_layer_norm", value)
            query = self.heads(f"{scope}.encoder_attn.q_proj", normal, self._heads)
            seen = self.attended(f"{scope}.encoder_attn.out_proj", query, *of_source(inputs, layer), None, scale)
            value = emit(AddOp, value, seen)
            value = self._opened(scope, value)
        value = self.layer_norm("model.decoder.layer_norm", gathered(value, inputs["selected"], 1))
        table = "proj_out" if self.has("proj_out.weight") else "model.decoder.embed_tokens"
        return {"logits": self.linear(table, value), **found}
