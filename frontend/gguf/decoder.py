"""Decoders of GGUF files as stepwell ops: layers of grouped-query attention and a gated perceptron, like Llama's.

A step takes new tokens with the keys and values of past tokens; it returns logits, and keys and values of all tokens:

    input_ids [batch, length], selected [outputs], starts [batch], past.0.key [batch, key heads, past, depth], ..
    --> logits [batch, outputs, vocabulary], present.0.key [batch, key heads, past + length, depth], ..

Logits are computed for the tokens at the places `selected` among the new ones. Texts of different lengths end at the
same place in a batch: each begins at its place in `starts`, and what lies before is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.stepwell import elementwise as ew
from ...dialects.stepwell.attention import AttentionOp
from ...dialects.stepwell.blocks import BlockMatmulOp
from ...dialects.stepwell.constant import ParameterOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise.activation import SiluOp
from ...dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp
from ...dialects.stepwell.normalization import RmsNormOp
from ..build import (
    added,
    cast,
    constant,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    numbered,
    scalar,
    sizes,
    transposed,
)
from ..errors import ModelError
from ..imported import ModelInfo, ValueInfo
from ..rotary import rotated
from .blocks import BlockWeight, is_block_format, read_blocks
from .reader import GgufFile, StoredTensor

_ROTATES_NEIGHBOURS = {"llama": True, "qwen2": False, "qwen3": False}
"""The supported architectures: whether rotary embeddings rotate neighbouring elements, instead of one of each half."""

_HEADS_FIRST = (0, 2, 1, 3)
_FLOATS = {"F32": np.float32, "F16": np.float16}


@dataclass(frozen=True)
class DecoderSizes:
    """The sizes of a decoder.

    Attributes:
        layers: number of layers.
        hidden: elements of a token between layers.
        heads: heads of queries.
        key_heads: heads of keys and values, each shared by `heads / key_heads` heads of queries.
        depth: elements of a key.
        value_depth: elements of a value.
        rotated: elements of queries and keys that are rotated.
        base: base of the wavelengths of the rotation.
        epsilon: number added to the mean square in norms.
        vocabulary: number of tokens.
        context: number of tokens that the decoder was trained for.
        rotates_neighbours: whether neighbours are rotated, instead of one element of each half.
    """

    layers: int
    hidden: int
    heads: int
    key_heads: int
    depth: int
    value_depth: int
    rotated: int
    base: float
    epsilon: float
    vocabulary: int
    context: int
    rotates_neighbours: bool

    @staticmethod
    def of(file: GgufFile) -> DecoderSizes:
        """Reads the settings of a file.

        Raises:
            ModelError: one is missing or wrong, or the architecture is not supported.
        """
        name = file.setting("general.architecture", str)
        if name not in _ROTATES_NEIGHBOURS:
            known = ", ".join(_ROTATES_NEIGHBOURS)
            raise ModelError(f"has the architecture '{name}', which is not supported; supported are {known}")
        if file.setting(f"{name}.expert_count", int, 0):
            raise ModelError("has experts, which are not supported")
        scaling = file.setting(f"{name}.rope.scaling.type", str, "none")
        if scaling != "none":
            raise ModelError(f"scales its rotary embeddings by '{scaling}', which is not supported")
        heads = file.setting(f"{name}.attention.head_count", int)
        hidden = file.setting(f"{name}.embedding_length", int)
        depth = file.setting(f"{name}.attention.key_length", int, hidden // max(heads, 1))
        config = DecoderSizes(
            layers=file.setting(f"{name}.block_count", int),
            hidden=hidden,
            heads=heads,
            key_heads=file.setting(f"{name}.attention.head_count_kv", int, heads),
            depth=depth,
            value_depth=file.setting(f"{name}.attention.value_length", int, depth),
            rotated=file.setting(f"{name}.rope.dimension_count", int, depth),
            base=file.setting(f"{name}.rope.freq_base", float, 10000.0),
            epsilon=file.setting(f"{name}.attention.layer_norm_rms_epsilon", float),
            vocabulary=file.tensor("token_embd.weight").shape[0],
            context=file.setting(f"{name}.context_length", int),
            rotates_neighbours=_ROTATES_NEIGHBOURS[name],
        )
        config._check()
        return config

    def _check(self) -> None:
        counts = (self.layers, self.hidden, self.heads, self.key_heads, self.depth, self.value_depth, self.context)
        if min(counts) < 1 or self.heads % self.key_heads or self.rotated % 2 or not 0 <= self.rotated <= self.depth:
            raise ModelError(f"has settings that do not fit together: {self}")

    def info(self, name: str) -> ModelInfo:
        """The inputs and outputs of the step."""

        def cache(when: str, length: str) -> list[ValueInfo]:
            parts = (("key", self.depth), ("value", self.value_depth))
            return [
                ValueInfo(f"{when}.{layer}.{part}", np.dtype(np.float32), ("batch", self.key_heads, length, depth))
                for layer in range(self.layers)
                for part, depth in parts
            ]

        tokens = ValueInfo("input_ids", np.dtype(np.int64), ("batch", "length"))
        selected = ValueInfo("selected", np.dtype(np.int64), ("outputs",))
        starts = ValueInfo("starts", np.dtype(np.int64), ("batch",))
        logits = ValueInfo("logits", np.dtype(np.float32), ("batch", "outputs", self.vocabulary))
        present = cache("present", "past + length")
        return ModelInfo(name, (tokens, selected, starts, *cache("past", "past")), (logits, *present))


class DecoderBuilder:
    """Builds the ops of a step at the insertion point.

    Attributes:
        parameters: the weights that the ops name.
    """

    def __init__(self, file: GgufFile, config: DecoderSizes) -> None:
        self._file, self._config = file, config
        self.parameters: dict[str, np.ndarray] = {}
        self._blocks: dict[str, BlockWeight] = {}

    def step(self, inputs: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
        """Builds the step; returns the outputs by name."""
        config = self._config
        past = known_dim(inputs["past.0.key"], 2, "the length of the past")
        length = known_dim(inputs["input_ids"], 1, "the number of new tokens")
        places, columns = emit(ew.AddOp, numbered(length), sizes(past)), numbered(past + length)
        starts = emit(ExpandDimsOp, inputs["starts"], axes=(1, 2, 3))
        rows = emit(ExpandDimsOp, places, axes=(0, 1, 3))
        mask = emit(ew.AndOp, emit(ew.LessEqualOp, columns, rows), emit(ew.GreaterEqualOp, columns, starts))
        angles = self._angles(emit(ew.SubOp, rows, starts))
        outputs: dict[str, ir.Value] = {}
        with ir.Location.name("token_embd"):
            value = self._embedded("token_embd.weight", inputs["input_ids"])
        for layer in range(config.layers):
            kept = [inputs[f"past.{layer}.{part}"] for part in ("key", "value")]
            with ir.Location.name(f"blk.{layer}"):
                found, *caches = self._attention(f"blk.{layer}", value, kept, mask, angles)
                value = emit(ew.AddOp, value, found)
                value = emit(ew.AddOp, value, self._perceptron(f"blk.{layer}", value))
            outputs |= dict(zip((f"present.{layer}.key", f"present.{layer}.value"), caches, strict=True))
        with ir.Location.name("output"):
            value = self._norm("output_norm", gathered(value, inputs["selected"], 1))
            is_tied = "output.weight" not in self._file.tensors
            logits = self._linear("token_embd" if is_tied else "output", value)
        return {"logits": logits, **outputs}

    def _angles(self, places: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns the cosines and sines of rotations, [batch, 1, length, pairs], for places [batch, 1, length, 1]."""
        config = self._config
        exponents = np.arange(0, config.rotated, 2) / max(config.rotated, 1)
        speeds = config.base**-exponents
        if "rope_freqs.weight" in self._file.tensors:
            speeds = speeds / self._floats("rope_freqs.weight", speeds.shape)
        turns = emit(ew.MulOp, cast(places, np.float32), constant(speeds.astype(np.float32)))
        return emit(ew.CosOp, turns), emit(ew.SinOp, turns)

    def _attention(
        self,
        scope: str,
        value: ir.Value,
        past: list[ir.Value],
        mask: ir.Value,
        angles: tuple[ir.Value, ir.Value],
    ) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Returns the result of attention, and the keys and values of all tokens."""
        config = self._config
        normal = self._norm(f"{scope}.attn_norm", value)
        query = self._heads(f"{scope}.attn_q", normal, config.heads, config.depth)
        key = self._heads(f"{scope}.attn_k", normal, config.key_heads, config.depth)
        fresh = self._heads(f"{scope}.attn_v", normal, config.key_heads, config.value_depth)
        query, key = (
            rotated(
                self._norm(f"{scope}.attn_{part}_norm", item, may_be_missing=True),
                *angles,
                is_interleaved=config.rotates_neighbours,
            )
            for part, item in (("q", query), ("k", key))
        )
        keys, values = (joined([old, new], 2) for old, new in zip(past, (key, fresh), strict=True))
        found = emit(AttentionOp, query, keys, values, mask, scale=config.depth**-0.5, zero_empty=True)
        flat = emit(DynamicReshapeOp, transposed(found, _HEADS_FIRST), integers([0, 0, -1]))
        return self._linear(f"{scope}.attn_output", flat), keys, values

    def _heads(self, name: str, value: ir.Value, heads: int, depth: int) -> ir.Value:
        """Returns a projection as [batch, heads, length, depth]."""
        apart = emit(DynamicReshapeOp, self._linear(name, value), integers([0, 0, heads, depth]))
        return transposed(apart, _HEADS_FIRST)

    def _perceptron(self, scope: str, value: ir.Value) -> ir.Value:
        normal = self._norm(f"{scope}.ffn_norm", value)
        gate = emit(SiluOp, self._linear(f"{scope}.ffn_gate", normal))
        return self._linear(f"{scope}.ffn_down", emit(ew.MulOp, gate, self._linear(f"{scope}.ffn_up", normal)))

    def _norm(self, name: str, value: ir.Value, may_be_missing: bool = False) -> ir.Value:
        name = f"{name}.weight"
        if may_be_missing and name not in self._file.tensors:
            return value
        scale = self._floats(name, self._file.tensor(name).shape)
        with ir.Location.name(name.removesuffix(".weight")):
            return emit(RmsNormOp, value, self._parameter(name, scale), axis=-1, epsilon=self._config.epsilon)

    def _linear(self, name: str, value: ir.Value) -> ir.Value:
        """Multiplies by a matrix [results, inputs], and adds the bias if there is one."""
        stored = self._file.tensor(f"{name}.weight")
        if len(stored.shape) != 2:
            raise ModelError(f"the tensor '{stored.name}' has the shape {list(stored.shape)}, and must be a matrix")
        bias = self._file.tensors.get(f"{name}.bias")
        with ir.Location.name(name):
            product = self._product(stored, value)
            if bias is None:
                return product
            return added(product, self._parameter(bias.name, self._floats(bias.name, bias.shape)))

    def _product(self, stored: StoredTensor, value: ir.Value) -> ir.Value:
        if not is_block_format(stored.kind):
            weight = self._parameter(stored.name, self._floats(stored.name, stored.shape))
            return emit(MatmulOp, value, weight, transpose_rhs=True)
        blocks, (numbers, scales), zeros = self._in_blocks(stored)
        return emit(BlockMatmulOp, value, numbers, scales, zeros, bits=blocks.bits, rounds_input=True)

    def _embedded(self, name: str, tokens: ir.Value) -> ir.Value:
        """Returns the rows of a table for some tokens, f32."""
        stored = self._file.tensor(name)
        if not is_block_format(stored.kind):
            return gathered(self._parameter(name, self._floats(name, stored.shape)), tokens, 0)
        blocks, parameters, zeros = self._in_blocks(stored)
        numbers, scales = (gathered(item, tokens, 0) for item in parameters)
        if blocks.bits == 4:
            low, high = emit(ew.AndOp, numbers, scalar(15, numbers)), emit(ew.ShiftRightOp, numbers, scalar(4, numbers))
            numbers = joined([emit(ExpandDimsOp, item, axes=(4,)) for item in (low, high)], 4)
            count = blocks.scales.shape[1]
            numbers = emit(DynamicReshapeOp, numbers, integers([0, 0, count, stored.shape[1] // count]))
        if isinstance(blocks.zeros, int):
            start = constant(np.array(blocks.zeros, np.float32))
        else:
            start = emit(ExpandDimsOp, gathered(zeros, tokens, 0), axes=(3,))
        offset = emit(ew.SubOp, cast(numbers, np.float32), start)
        made = emit(ew.MulOp, offset, emit(ExpandDimsOp, scales, axes=(3,)))
        return emit(DynamicReshapeOp, made, integers([0, 0, -1]))

    def _in_blocks(self, stored: StoredTensor) -> tuple[BlockWeight, tuple[ir.Value, ir.Value], ir.Value | None]:
        """Returns a weight in blocks: numbers, scales, and zeros unless these are the middle of the numbers."""
        if stored.name not in self._blocks:
            self._blocks[stored.name] = read_blocks(stored.kind, stored.data)
        blocks, zeros = self._blocks[stored.name], None
        numbers = self._parameter(f"{stored.name}.numbers", blocks.numbers)
        scales = self._parameter(f"{stored.name}.scales", blocks.scales)
        if not isinstance(blocks.zeros, int):
            zeros = self._parameter(f"{stored.name}.zeros", blocks.zeros)
        elif blocks.zeros != 1 << (blocks.bits - 1):
            zeros = self._parameter(f"{stored.name}.zeros", np.full(blocks.scales.shape, blocks.zeros, np.uint8))
        return blocks, (numbers, scales), zeros

    def _floats(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Returns a tensor of floats as f32.

        Raises:
            ModelError: it is of another type or shape.
        """
        stored = self._file.tensor(name)
        if stored.shape != shape:
            raise ModelError(f"the tensor '{name}' has the shape {list(stored.shape)}, and must have {list(shape)}")
        if stored.kind == "BF16":
            words = np.ascontiguousarray(stored.data).view(np.uint16).astype(np.uint32)
            return (words << 16).view(np.float32).reshape(shape)
        if stored.kind not in _FLOATS:
            raise ModelError(f"the tensor '{name}' has the type {stored.kind}, which is not supported")
        return np.asarray(stored.data).astype(np.float32).reshape(shape)

    def _parameter(self, name: str, array: np.ndarray) -> ir.Value:
        self.parameters.setdefault(name, array)
        with ir.Location.name(name):
            return ParameterOp(name=name, shape=array.shape, dtype=array.dtype).operation.result
