"""Tensors of transformers in the layouts of GGUF."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gguf.blocks import BlockWeight
from ..gguf.reader import StoredTensor
from .settings import key_heads_of, rotation_of

Weight = np.ndarray | BlockWeight
"""A tensor: floats, or numbers in blocks."""

_STORED_BY_INPUTS = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
_FUSED = ".query_key_value."
_OF_EXPERTS = {".experts.gate_up_proj": (".experts.gate_proj", ".experts.up_proj")}


@dataclass(frozen=True)
class TensorLayout:
    """The layout of the tensors of a model.

    Attributes:
        config: the contents of `config.json`.
        architecture: the name of the architecture in GGUF.
    """

    config: Mapping[str, Any]
    architecture: str

    def parts(self, name: str, weight: Weight) -> Iterator[tuple[str, Weight]]:
        """Yields the tensors that a tensor consists of in GGUF, by names of transformers.

        Quantised matrices are always stored by outputs.
        """
        if isinstance(weight, BlockWeight):
            yield name, weight.changed(self._in_turn) if _FUSED in name else weight
        else:
            yield from self._parts(name, weight)

    def _parts(self, name: str, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        if self.architecture == "gpt2" and name.endswith(_STORED_BY_INPUTS):
            array = array.T
        elif self.architecture.startswith("gemma") and name.endswith("norm.weight"):
            array = array.astype(np.float32) + 1
        elif _FUSED in name:
            array = self._in_turn(array)
        for fused, roles in _OF_EXPERTS.items():
            if name.removesuffix(".weight").endswith(fused):
                for role, part in zip(roles, np.split(array, len(roles), axis=1), strict=True):
                    yield name.removesuffix(".weight").removesuffix(fused) + role + ".weight", part
                return
        is_stacked = name.endswith(".experts.down_proj")
        yield (f"{name}.weight" if is_stacked else name), array

    def rotation_factors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Yields the divisors of the speeds of rotation that Llama 3 has (transformers, modeling_rope_utils.py)."""
        rotation = rotation_of(self.config)
        if rotation.get("rope_type", rotation.get("type")) != "llama3":
            return
        depth = self.config.get("head_dim") or self.config["hidden_size"] // self.config["num_attention_heads"]
        waves = 2 * math.pi * rotation["rope_theta"] ** (np.arange(0, depth, 2) / depth)
        context, low, high = (
            rotation[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
        )
        # Short waves stay, long ones are stretched, and those between are in part.
        part = np.clip((context / waves - low) / (high - low), 0, 1)
        factors = (1 / ((1 - part) / rotation["factor"] + part)).astype(np.float32)
        yield "rope_freqs.weight", StoredTensor("rope_freqs.weight", "F32", factors.shape, factors)

    def _in_turn(self, array: np.ndarray) -> np.ndarray:
        """Reorders the rows of a fused projection: all queries, all keys, all values."""
        config = self.config
        heads = config.get("num_attention_heads") or config["n_head"]
        is_in_turn = config.get("multi_query", self.architecture == "falcon") and not config.get(
            "new_decoder_architecture"
        )
        if self.architecture == "falcon" and is_in_turn:
            return array
        groups = key_heads_of(config, heads)
        parts = array.reshape(groups, heads // groups + 2, -1, *array.shape[1:])
        ordered = (parts[:, :-2], parts[:, -2], parts[:, -1])
        return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in ordered])
