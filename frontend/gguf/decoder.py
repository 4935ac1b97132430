"""Decoders of GGUF files as stepwell ops: layers of grouped-query attention and a perceptron.

`decoder_step` describes the inputs and outputs of the step that is built.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.stepwell import elementwise as ew
from ...dialects.stepwell.attention import AttentionOp
from ...dialects.stepwell.blocks import BlockMatmulOp
from ...dialects.stepwell.constant import ParameterOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise.activation import GeluOp, SiluOp
from ...dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, RowOp
from ...dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from ..build import (
    added,
    cast,
    constant,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    part_along,
    scalar,
    shape_of,
)
from ..decoder_step import StepPositions, layer_caches, step_info
from ..errors import ModelError
from ..heads import merged_heads, split_heads
from ..imported import ModelInfo
from ..rotary import rotated
from .architectures import DecoderSizes
from .blocks import BlockWeight
from .experts import routed
from .reader import GgufFile, StoredTensor


def info_of(config: DecoderSizes, name: str) -> ModelInfo:
    """The inputs and outputs of the step."""
    caches = layer_caches(config.layers, config.key_heads, config.depth, config.value_depth)
    return step_info(name, caches, config.vocabulary)


@dataclass(frozen=True)
class _Scope:
    """The keys that layers attend to.

    Attributes:
        mask: true for the keys that each query sees.
        angles: the cosines and sines of rotations, if there are any.
    """

    mask: ir.Value
    angles: tuple[ir.Value, ir.Value] | None


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
        places = StepPositions.of(past, length, inputs["starts"])
        mask, turns = places.mask(), emit(ew.SubOp, places.rows, places.starts)
        if config.architecture.has_slopes:
            mask = self._sloped(mask, emit(ew.SubOp, places.columns, places.starts))
        everywhere, windowed = _Scope(mask, self._angles(turns, is_windowed=False)), None
        if config.window:
            first = emit(ew.SubOp, places.rows, scalar(config.window, places.rows))
            near = emit(ew.AndOp, mask, emit(ew.GreaterOp, places.columns, first))
            windowed = _Scope(near, self._angles(turns, is_windowed=True))
        outputs: dict[str, ir.Value] = {}
        with ir.Location.name("token_embd"):
            value = self._embedded("token_embd.weight", inputs["input_ids"])
            if config.architecture.scales_embedding:
                value = emit(ew.MulOp, value, scalar(float(np.sqrt(np.float32(config.hidden))), value))
            if "position_embd.weight" in self._file.tensors:
                value = emit(ew.AddOp, value, self._at_positions("position_embd.weight", turns))
            value = self._norm("token_embd_norm", value, may_be_missing=True)
        for layer in range(config.layers):
            kept = [inputs[f"past.{layer}.{part}"] for part in ("key", "value")]
            seen = windowed if windowed is not None and config.has_window(layer) else everywhere
            with ir.Location.name(f"blk.{layer}"):
                value, *caches = self._layer(f"blk.{layer}", value, kept, seen)
            outputs |= dict(zip((f"present.{layer}.key", f"present.{layer}.value"), caches, strict=True))
        with ir.Location.name("output"):
            value = self._norm("output_norm", gathered(value, inputs["selected"], 1))
            is_tied = "output.weight" not in self._file.tensors
            logits = self._linear("token_embd" if is_tied else "output", value)
            if config.logit_cap:
                limit = scalar(config.logit_cap, logits)
                logits = emit(ew.MulOp, emit(ew.TanhOp, emit(ew.DivOp, logits, limit)), limit)
        return {"logits": logits, **outputs}

    def _sloped(self, mask: ir.Value, positions: ir.Value) -> ir.Value:
        """Returns the bias of scores [batch, heads, length, keys], for positions of keys [batch, 1, 1, keys].

        It grows with the position of the key. It differs from a bias that falls with the distance only by a constant
        per query, which does not change the softmax.
        """
        slopes = constant(_slopes(self._config.heads).reshape(-1, 1, 1))
        bias = emit(ew.MulOp, cast(positions, np.float32), slopes)
        return emit(ew.SelectOp, mask, bias, scalar(-np.inf, bias))

    def _at_positions(self, name: str, positions: ir.Value) -> ir.Value:
        """Returns rows of a table for positions [batch, 1, length, 1]; positions before a text take the first row."""
        table = self._parameter(name, self._floats(name, self._file.tensor(name).shape))
        rows = emit(DynamicReshapeOp, emit(ew.MaximumOp, positions, scalar(0, positions)), integers([0, -1]))
        return gathered(table, rows, 0)

    def _angles(self, positions: ir.Value, is_windowed: bool) -> tuple[ir.Value, ir.Value] | None:
        """Returns cosines and sines of rotations, [batch, 1, length, pairs], for positions [batch, 1, length, 1]."""
        config = self._config
        if not config.rotated:
            return None
        base = (config.architecture.window_base if is_windowed else None) or config.base
        is_stretched = not (is_windowed and config.architecture.global_every)
        speeds = base ** -(np.arange(0, config.rotated, 2) / config.rotated) / (config.stretch if is_stretched else 1)
        if "rope_freqs.weight" in self._file.tensors:
            speeds = speeds / self._floats("rope_freqs.weight", speeds.shape)
        turns = emit(ew.MulOp, cast(positions, np.float32), constant(speeds.astype(np.float32)))
        return emit(ew.CosOp, turns), emit(ew.SinOp, turns)

    def _layer(self, scope: str, value: ir.Value, past: list[ir.Value], seen: _Scope) -> tuple[ir.Value, ...]:
        """Returns the result of a layer, and the keys and values of all tokens.

        Without a norm of its own, the perceptron reads what attention reads (Wang and Komatsuzaki 2021).
        """
        normal = self._norm(f"{scope}.attn_norm", value)
        is_apart = f"{scope}.attn_norm_2.weight" in self._file.tensors
        attended = self._norm(f"{scope}.attn_norm_2", value) if is_apart else normal
        found, *caches = self._attention(scope, attended, past, seen)
        before = value
        value = emit(ew.AddOp, value, self._norm(f"{scope}.post_attention_norm", found, may_be_missing=True))
        if f"{scope}.ffn_norm.weight" in self._file.tensors:
            normal = self._norm(f"{scope}.ffn_norm", before if self._config.is_parallel else value)
        made = self._norm(f"{scope}.post_ffw_norm", self._opened(scope, normal), may_be_missing=True)
        return emit(ew.AddOp, value, made), *caches

    def _attention(
        self, scope: str, normal: ir.Value, past: list[ir.Value], seen: _Scope
    ) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Returns the result of attention, and the keys and values of all tokens."""
        config = self._config
        query, key, fresh = self._projections(scope, normal)
        query, key = (
            self._norm(f"{scope}.attn_{part}_norm", item, may_be_missing=True)
            for part, item in (("q", query), ("k", key))
        )
        if seen.angles is not None:
            is_interleaved = config.architecture.rotates == "neighbours"
            query, key = (rotated(item, *seen.angles, is_interleaved=is_interleaved) for item in (query, key))
        keys, values = (joined([old, new], 2) for old, new in zip(past, (key, fresh), strict=True))
        options = {"scale": config.scale, "cap": config.score_cap, "zero_empty": True}
        found = emit(AttentionOp, query, keys, values, seen.mask, **options)
        flat = merged_heads(found)
        return self._linear(f"{scope}.attn_output", flat), keys, values

    def _projections(self, scope: str, normal: ir.Value) -> list[ir.Value]:
        """Returns queries, keys and values, each [batch, heads, length, depth]; a file may store them as one matrix."""
        config = self._config
        heads = (config.heads, config.key_heads, config.key_heads)
        depths = (config.depth, config.depth, config.value_depth)
        widths = [count * depth for count, depth in zip(heads, depths, strict=True)]
        if f"{scope}.attn_qkv.weight" in self._file.tensors:
            parts = self._parts(f"{scope}.attn_qkv", normal, widths)
        else:
            parts = [self._linear(f"{scope}.attn_{part}", normal) for part in "qkv"]
        return [split_heads(item, count, depth) for item, count, depth in zip(parts, heads, depths, strict=True)]

    def _parts(self, name: str, value: ir.Value, widths: Sequence[int]) -> list[ir.Value]:
        """Returns the parts of a product, of the given numbers of elements.

        Raises:
            ModelError: the matrix has another number of rows.
        """
        rows = self._file.tensor(f"{name}.weight").shape[0]
        if rows != sum(widths):
            raise ModelError(f"the tensor '{name}.weight' has {rows} rows, and must have {sum(widths)}")
        product, ends = self._linear(name, value), np.cumsum([0, *widths]).tolist()
        return [part_along(product, 2, start, end) for start, end in itertools.pairwise(ends)]

    def _opened(self, scope: str, normal: ir.Value) -> ir.Value:
        """Returns the result of the perceptron of a layer, or of its experts and its shared expert."""
        if f"{scope}.ffn_gate_inp.weight" not in self._file.tensors:
            return self._perceptron(scope, normal)
        config = self._config
        rows = emit(DynamicReshapeOp, normal, integers([-1, config.hidden]))
        scores = self._linear(f"{scope}.ffn_gate_inp", rows)
        if not config.used_experts:
            raise ModelError("has experts, but lacks the number of experts per token (expert_used_count)")

        def expert(rows: ir.Value, number: ir.Value) -> ir.Value:
            return self._perceptron(scope, rows, "_exps", number)

        made = routed(rows, scores, config.used_experts, config.architecture.has_shares_of_one, expert)
        made = emit(DynamicReshapeOp, made, shape_of(normal))
        if f"{scope}.ffn_up_shexp.weight" not in self._file.tensors:
            return made
        shared = self._perceptron(scope, normal, "_shexp")
        if f"{scope}.ffn_gate_inp_shexp.weight" in self._file.tensors:
            weight = self._as_matrix(f"{scope}.ffn_gate_inp_shexp.weight")
            shared = emit(ew.MulOp, shared, emit(ew.SigmoidOp, emit(MatmulOp, normal, weight, transpose_rhs=True)))
        return emit(ew.AddOp, made, shared)

    def _perceptron(self, scope: str, normal: ir.Value, kind: str = "", expert: ir.Value | None = None) -> ir.Value:
        """Returns the result of a perceptron; a file may store the gate and the up projection as one matrix.

        Args:
            scope: the layer.
            normal: its input.
            kind: suffix of the names of its tensors.
            expert: the number of the perceptron, if tensors hold several.
        """
        architecture, up = self._config.architecture, f"{scope}.ffn_up{kind}"
        if not architecture.is_gated:
            opened = self._activated(self._linear(up, normal, expert))
        elif f"{scope}.ffn_gate{kind}.weight" in self._file.tensors:
            gate = self._activated(self._linear(f"{scope}.ffn_gate{kind}", normal, expert))
            opened = emit(ew.MulOp, gate, self._linear(up, normal, expert))
        else:
            half = self._file.tensor(f"{up}.weight").shape[0] // 2
            gate, value = self._parts(up, normal, (half, half))
            opened = emit(ew.MulOp, self._activated(gate), value)
        return self._linear(f"{scope}.ffn_down{kind}", opened, expert)

    def _activated(self, value: ir.Value) -> ir.Value:
        is_silu = self._config.architecture.activation == "silu"
        return emit(SiluOp, value) if is_silu else emit(GeluOp, value, approximate="tanh")

    def _norm(self, name: str, value: ir.Value, may_be_missing: bool = False) -> ir.Value:
        weight, bias = f"{name}.weight", f"{name}.bias"
        if may_be_missing and weight not in self._file.tensors:
            return value
        config, shape = self._config, self._file.tensor(weight).shape
        with ir.Location.name(name):
            scale = self._parameter(weight, self._floats(weight, shape))
            if config.architecture.norm == "rms":
                return emit(RmsNormOp, value, scale, axis=-1, epsilon=config.epsilon)
            offset = self._parameter(bias, self._floats(bias, shape)) if bias in self._file.tensors else None
            return emit(LayerNormOp, value, scale, offset, axis=-1, epsilon=config.epsilon)

    def _linear(self, name: str, value: ir.Value, expert: ir.Value | None = None) -> ir.Value:
        """Multiplies by a matrix [results, inputs], and adds the bias if there is one.

        Args:
            name: the name of the tensors.
            value: the input.
            expert: the number of the matrix and bias, if tensors hold several.
        """
        stored, rank = self._file.tensor(f"{name}.weight"), 2 if expert is None else 3
        if len(stored.shape) != rank or (expert is not None and stored.shape[0] != self._config.experts):
            wanted = "be a matrix" if expert is None else f"hold {self._config.experts} matrices"
            raise ModelError(f"the tensor '{stored.name}' has the shape {list(stored.shape)}, and must {wanted}")
        bias = self._file.tensors.get(f"{name}.bias")
        with ir.Location.name(name):
            product = self._product(stored, value, expert)
            if bias is None:
                return product
            return added(product, _chosen(self._parameter(bias.name, self._floats(bias.name, bias.shape)), expert))

    def _product(self, stored: StoredTensor, value: ir.Value, expert: ir.Value | None) -> ir.Value:
        if not stored.is_in_blocks:
            weight = _chosen(self._parameter(stored.name, stored.floats()), expert)
            return emit(MatmulOp, value, cast(weight, np.float32), transpose_rhs=True)
        blocks, parameters, zeros = self._in_blocks(stored)
        numbers, scales = (_chosen(item, expert) for item in parameters)
        zeros = None if zeros is None else _chosen(zeros, expert)
        if blocks.order is not None:
            value = gathered(value, constant(blocks.order), -1)
        return emit(BlockMatmulOp, value, numbers, scales, zeros, bits=blocks.bits, rounds_input=True)

    def _as_matrix(self, name: str) -> ir.Value:
        """Returns the row that a tensor holds as a matrix of one row."""
        stored = self._file.tensor(name)
        return self._parameter(name, self._floats(name, stored.shape).reshape(1, -1))

    def _embedded(self, name: str, tokens: ir.Value) -> ir.Value:
        """Returns the rows of a table for some tokens, f32."""
        stored = self._file.tensor(name)
        if not stored.is_in_blocks:
            return cast(gathered(self._parameter(name, stored.floats()), tokens, 0), np.float32)
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
        made = emit(ew.MulOp, offset, cast(emit(ExpandDimsOp, scales, axes=(3,)), np.float32))
        return emit(DynamicReshapeOp, made, integers([0, 0, -1]))

    def _in_blocks(self, stored: StoredTensor) -> tuple[BlockWeight, tuple[ir.Value, ir.Value], ir.Value | None]:
        """Returns a weight in blocks: numbers, scales, and zeros unless these are the middle of the numbers."""
        if stored.name not in self._blocks:
            self._blocks[stored.name] = stored.blocks()
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
        return stored.floats().astype(np.float32, copy=False)

    def _parameter(self, name: str, array: np.ndarray) -> ir.Value:
        self.parameters.setdefault(name, array)
        with ir.Location.name(name):
            return ParameterOp(name=name, shape=array.shape, dtype=array.dtype).operation.result


def _chosen(value: ir.Value, expert: ir.Value | None) -> ir.Value:
    """Returns the part of a stacked weight that belongs to an expert."""
    return value if expert is None else emit(RowOp, value, expert)


def _slopes(heads: int) -> np.ndarray:
    """Returns the slope of each head, f32 (ALiBi): powers of 2^(-8 / n) for the n heads of a power of two.

    Other numbers of heads take every second slope of twice as many for the rest.
    """
    power = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
    rest = 2.0 ** (-4.0 / power * np.arange(1, 2 * (heads - power), 2))
    return np.concatenate([first, rest]).astype(np.float32)
