"""T5: an encoder and a decoder whose scores have a bias by the distance of tokens (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mlir import ir

from ....dialects.dims import Dim
from ....dialects.stepwell.elementwise import AddOp, LessOp, MaximumOp, MinimumOp, MulOp, SelectOp, SubOp
from ....dialects.stepwell.elementwise.activation import GeluOp, ReluOp, SiluOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....passes.graph.values import dimension
from ...build import emit, gathered, integers, known_dim, numbered, scalar
from ...decoder_step import FLOAT, INDEX, SOURCE_LENGTHS, StepPositions
from ...errors import ModelError
from ...imported import ModelInfo, ValueInfo
from .part import ModelPart, decoder_info, grown, of_source, source_caches

_ACTIVATIONS = {
    "relu": lambda value: emit(ReluOp, value),
    "gelu_new": lambda value: emit(GeluOp, value, approximate="tanh"),
    "gelu": lambda value: emit(GeluOp, value),
    "silu": lambda value: emit(SiluOp, value),
}


class _T5(ModelPart):
    """Sizes and layers that the encoder and the decoder share."""

    side = ""

    @property
    def _heads(self) -> int:
        return self.setting("num_heads")

    @property
    def _depth(self) -> int:
        return self.setting("d_kv")

    @property
    def _decoder_layers(self) -> int:
        return self.setting("num_decoder_layers", "num_layers")

    def _norm(self, name: str, value: ir.Value) -> ir.Value:
        return self.rms_norm(name, value, self.number("layer_norm_epsilon", 1e-6))

    def _opened(self, scope: str, value: ir.Value) -> ir.Value:
        """Adds the result of the perceptron."""
        given = str(self._config.get("feed_forward_proj", "relu"))
        kind = {"gated-gelu": "gelu_new"}.get(given, given.removeprefix("gated-"))
        if kind not in _ACTIVATIONS:
            raise ModelError(f"has the activation '{given}'; supported are {', '.join(_ACTIVATIONS)}")
        normal, name = self._norm(f"{scope}.layer_norm", value), f"{scope}.DenseReluDense"
        if given.startswith("gated-"):
            opened = emit(
                MulOp, _ACTIVATIONS[kind](self.linear(f"{name}.wi_0", normal)), self.linear(f"{name}.wi_1", normal)
            )
        else:
            opened = _ACTIVATIONS[kind](self.linear(f"{name}.wi", normal))
        return emit(AddOp, value, self.linear(f"{name}.wo", opened))

    def _bias(self, rows: ir.Value, columns: ir.Value) -> ir.Value:
        """Returns the bias of scores [1, heads, rows, columns] for positions of queries and of keys, i64."""
        farthest = self.setting("relative_attention_max_distance", default=128)
        name = f"{self.side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        buckets = self._buckets(np.arange(-farthest, farthest + 1), farthest)
        table = self.parameter(f"{name}.distances", np.ascontiguousarray(self.floats(name)[buckets].T))
        distance = emit(SubOp, emit(ExpandDimsOp, columns, axes=(0,)), emit(ExpandDimsOp, rows, axes=(1,)))
        limited = emit(MinimumOp, emit(MaximumOp, distance, integers(-farthest)), integers(farthest))
        found = gathered(table, emit(AddOp, limited, integers(farthest)), 1)
        return emit(ExpandDimsOp, found, axes=(0,))

    def _buckets(self, distance: np.ndarray, farthest: int) -> np.ndarray:
        """Returns the rows of the table of biases for distances of keys behind queries; far ones share a row."""
        count, first = self.setting("relative_attention_num_buckets", default=32), np.zeros_like(distance)
        if self.side == "encoder":
            count //= 2
            first = np.where(distance > 0, count, 0)
            distance = np.abs(distance)
        else:
            distance = np.maximum(-distance, 0)
        exact = count // 2
        shares = np.log(np.maximum(distance, 1).astype(FLOAT) / FLOAT.type(exact)) / np.log(farthest / exact)
        far = np.minimum(exact + (shares.astype(FLOAT) * (count - exact)).astype(np.int64), count - 1)
        return first + np.where(distance < exact, distance, far)


class T5Encoder(_T5):
    """The encoder, and the keys and values that each layer of the decoder computes from its result.

    Token ids [1, source] --> cross.0.key [1, heads, source, depth], ..
    """

    side = "encoder"

    def info(self, name: str) -> ModelInfo:
        """See `ModelPart`."""
        caches = source_caches(self._decoder_layers, self._heads, self._depth, "source")
        return ModelInfo(name, (ValueInfo("source_ids", INDEX, ("batch", "source")),), caches)

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        tokens = inputs["source_ids"]
        line = numbered(known_dim(tokens, 1, "the number of tokens"))
        bias, value = self._bias(line, line), self.embedded("shared.weight", tokens)
        for layer in range(self.setting("num_layers")):
            scope = f"encoder.block.{layer}"
            name = f"{scope}.layer.0.SelfAttention"
            normal = self._norm(f"{scope}.layer.0.layer_norm", value)
            parts = [self.heads(f"{name}.{part}", normal, self._heads) for part in "qkv"]
            value = emit(AddOp, value, self.attended(f"{name}.o", *parts, bias, 1.0))
            value = self._opened(f"{scope}.layer.1", value)
        value, found = self._norm("encoder.final_layer_norm", value), dict[str, ir.Value]()
        for layer in range(self._decoder_layers):
            name = f"decoder.block.{layer}.layer.1.EncDecAttention"
            for part, letter in (("key", "k"), ("value", "v")):
                found[f"cross.{layer}.{part}"] = self.heads(f"{name}.{letter}", value, self._heads)
        return found


class T5Decoder(_T5):
    """A step of the decoder, which attends to keys and values of the source."""

    side = "decoder"

    def info(self, name: str) -> ModelInfo:
        """See `ModelPart`."""
        lengths, vocabulary = ValueInfo(SOURCE_LENGTHS, INDEX, ("batch",)), len(self.array("shared.weight"))
        return decoder_info(name, self._decoder_layers, self._heads, self._depth, vocabulary, (lengths,))

    def build(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """See `ModelPart`."""
        past = known_dim(inputs["past.0.key"], 2, "the length of the past")
        length = known_dim(inputs["input_ids"], 1, "the number of new tokens")
        mask, found = self._scores(past, length, inputs["starts"]), dict[str, ir.Value]()
        source = numbered(known_dim(inputs["cross.0.key"], 2, "the number of tokens of the source"))
        seen = emit(LessOp, source, emit(ExpandDimsOp, inputs[SOURCE_LENGTHS], axes=(1, 2, 3)))
        value = self.embedded("shared.weight", inputs["input_ids"])
        for layer in range(self._decoder_layers):
            scope = f"decoder.block.{layer}"
            name = f"{scope}.layer.0.SelfAttention"
            normal = self._norm(f"{scope}.layer.0.layer_norm", value)
            query, key, new = (self.heads(f"{name}.{part}", normal, self._heads) for part in "qkv")
            kept = grown(inputs, layer, key, new)
            found |= kept
            value = emit(AddOp, value, self.attended(f"{name}.o", query, *kept.values(), mask, 1.0))
            name = f"{scope}.layer.1.EncDecAttention"
            query = self.heads(f"{name}.q", self._norm(f"{scope}.layer.1.layer_norm", value), self._heads)
            value = emit(AddOp, value, self.attended(f"{name}.o", query, *of_source(inputs, layer), seen, 1.0))
            value = self._opened(f"{scope}.layer.2", value)
        value = self._norm("decoder.final_layer_norm", gathered(value, inputs["selected"], 1))
        if self._config.get("scale_decoder_outputs", self._config.get("tie_word_embeddings") is not False):
            value = emit(MulOp, value, scalar(self.setting("d_model") ** -0.5, value))
        return {"logits": self.linear("lm_head" if self.has("lm_head.weight") else "shared", value), **found}

    def _scores(self, past: Dim, length: Dim, starts: ir.Value) -> ir.Value:
        """Returns the bias of scores [batch, heads, length, past + length], minus infinity for later tokens."""
        bias = self._bias(emit(AddOp, numbered(length), dimension(past)), numbered(past + length))
        return emit(SelectOp, StepPositions.of(past, length, starts).mask(), bias, scalar(-np.inf, bias))
