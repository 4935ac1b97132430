"""Architectures of decoders in GGUF files: their differences, and the sizes that a file declares.

Differences that follow from the tensors in a file (biases, norms of heads, fused projections) are not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..errors import ModelError
from .reader import GgufFile


@dataclass(frozen=True)
class Architecture:
    """The differences of a family of decoders.

    Attributes:
        rotates: which elements rotary embeddings rotate together: "neighbours", or one from each of two "halves".
        norm: the kind of norm: root mean square, or layer norm.
        activation: the function within the perceptron; "gelu" is its approximation by a hyperbolic tangent.
        is_gated: whether the activation is multiplied by a second projection.
        scales_embedding: whether embeddings are multiplied by the root of their size.
        has_windows: whether the setting of a sliding window applies.
        global_every: every n-th layer has no window; 0 if all layers are alike.
        window_base: base of the wavelengths of the rotation in layers with a window; None for the base of the other
            layers.
        has_slopes: whether scores fall with the distance of a key, by a slope per head (ALiBi, Press et al. 2022).
        has_shares_of_one: whether the shares of the chosen experts add up to one.
    """

    rotates: Literal["neighbours", "halves", "nothing"] = "halves"
    norm: Literal["rms", "layer"] = "rms"
    activation: Literal["silu", "gelu"] = "silu"
    is_gated: bool = True
    scales_embedding: bool = False
    has_windows: bool = False
    global_every: int = 0
    window_base: float | None = None
    has_slopes: bool = False
    has_shares_of_one: bool = True


ARCHITECTURES = {
    "llama": Architecture("neighbours", has_windows=True),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(has_shares_of_one=False),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(),
    "gemma": Architecture(activation="gelu", scales_embedding=True),
    "gemma2": Architecture(activation="gelu", scales_embedding=True, has_windows=True, global_every=2),
    "gemma3": Architecture(
        activation="gelu", scales_embedding=True, has_windows=True, global_every=6, window_base=10000.0
    ),
    "phi2": Architecture(norm="layer", activation="gelu", is_gated=False),
    "phi3": Architecture(has_windows=True),
    "bloom": Architecture("nothing", norm="layer", activation="gelu", is_gated=False, has_slopes=True),
    "falcon": Architecture(norm="layer", activation="gelu", is_gated=False),
    "gptneox": Architecture(norm="layer", activation="gelu", is_gated=False),
    "gpt2": Architecture("nothing", norm="layer", activation="gelu", is_gated=False),
    "stablelm": Architecture(norm="layer"),
    "starcoder2": Architecture(norm="layer", activation="gelu", is_gated=False, has_windows=True),
}
"""The supported architectures, by their names in files. (llama.cpp, src/llama-model.cpp)"""

_NARROW_SCALE_LAYERS = {"gemma2": 46, "gemma3": 62}
"""Gemma of this depth (27B) scales scores by the size of a token per head, not by that of a key."""


@dataclass(frozen=True)
class DecoderSizes:
    """The architecture and the sizes of a decoder.

    Attributes:
        architecture: the differences from other families.
        layers: number of layers.
        hidden: elements of a token between layers.
        heads: heads of queries.
        key_heads: heads of keys and values, each shared by `heads / key_heads` heads of queries.
        depth: elements of a key.
        value_depth: elements of a value.
        scale: factor of the scores.
        rotated: elements of queries and keys that are rotated.
        base: base of the wavelengths of the rotation.
        stretch: divisor of positions in the rotation, in layers without a window if others have one.
        epsilon: number added to the mean square in norms.
        vocabulary: number of tokens.
        context: number of tokens that the decoder was trained for.
        window: number of tokens that a layer with a window attends to; 0 for no windows.
        score_cap: limit of the scores; 0 for none.
        logit_cap: limit of the logits; 0 for none.
        is_parallel: whether attention and perceptron read the same token, though they have norms of their own.
        experts: number of perceptrons of which each token takes some; 0 for one that all tokens take.
        used_experts: number of perceptrons that a token takes.
    """

    architecture: Architecture
    layers: int
    hidden: int
    heads: int
    key_heads: int
    depth: int
    value_depth: int
    scale: float
    rotated: int
    base: float
    stretch: float
    epsilon: float
    vocabulary: int
    context: int
    window: int
    score_cap: float
    logit_cap: float
    is_parallel: bool
    experts: int
    used_experts: int

    @staticmethod
    def of(file: GgufFile) -> DecoderSizes:
        """Reads the settings of a file.

        Raises:
            ModelError: one is missing or wrong, or the architecture is not supported.
        """
        name = file.setting("general.architecture", str)
        if name not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise ModelError(f"has the architecture '{name}', which is not supported; supported are {known}")
        architecture = ARCHITECTURES[name]
        if architecture.rotates == "neighbours" and file.setting("stepwell.rotates_halves", bool, False):
            architecture = replace(architecture, rotates="halves")  # not of a GGUF file
        if f"{name}.expert_weights_norm" in file.settings:
            has_shares = file.setting(f"{name}.expert_weights_norm", bool)
            architecture = replace(architecture, has_shares_of_one=has_shares)
        scaling = file.setting(f"{name}.rope.scaling.type", str, "none")
        if scaling not in ("none", "linear") or "rope_factors_long.weight" in file.tensors:
            scaling = "longrope" if scaling in ("none", "linear") else scaling
            raise ModelError(f"scales its rotary embeddings by '{scaling}', which is not supported")
        layers = file.setting(f"{name}.block_count", int)
        heads = file.setting(f"{name}.attention.head_count", int)
        hidden = file.setting(f"{name}.embedding_length", int)
        depth = file.setting(f"{name}.attention.key_length", int, hidden // max(heads, 1))
        is_narrow = layers == _NARROW_SCALE_LAYERS.get(name)
        kind = "layer_norm_rms_epsilon" if architecture.norm == "rms" else "layer_norm_epsilon"
        config = DecoderSizes(
            architecture=architecture,
            layers=layers,
            hidden=hidden,
            heads=heads,
            key_heads=file.setting(f"{name}.attention.head_count_kv", int, heads),
            depth=depth,
            value_depth=file.setting(f"{name}.attention.value_length", int, depth),
            scale=(hidden / heads if is_narrow else max(depth, 1)) ** -0.5,
            rotated=0
            if architecture.rotates == "nothing"
            else file.setting(f"{name}.rope.dimension_count", int, depth),
            base=file.setting(f"{name}.rope.freq_base", float, 10000.0),
            stretch=file.setting(f"{name}.rope.scaling.factor", float) if scaling == "linear" else 1.0,
            epsilon=file.setting(f"{name}.attention.{kind}", float),
            vocabulary=file.tensor("token_embd.weight").shape[0],
            context=file.setting(f"{name}.context_length", int),
            window=file.setting(f"{name}.attention.sliding_window", int, 0) if architecture.has_windows else 0,
            score_cap=file.setting(f"{name}.attn_logit_softcapping", float, 0.0),
            logit_cap=file.setting(f"{name}.final_logit_softcapping", float, 0.0),
            is_parallel=file.setting(f"{name}.use_parallel_residual", bool, False),
            experts=file.setting(f"{name}.expert_count", int, 0),
            used_experts=file.setting(f"{name}.expert_used_count", int, 0),
        )
        config._check()
        return config

    def _check(self) -> None:
        counts = (self.layers, self.hidden, self.heads, self.key_heads, self.depth, self.value_depth, self.context)
        is_wrong = min(counts) < 1 or self.heads % self.key_heads or self.rotated % 2 or self.window < 0
        is_wrong = is_wrong or min(self.score_cap, self.logit_cap) < 0
        is_wrong = is_wrong or not (self.experts == self.used_experts == 0 or 0 < self.used_experts <= self.experts)
        if is_wrong or not 0 <= self.rotated <= self.depth or not self.stretch > 0:
            raise ModelError(f"has settings that do not fit together: {self}")

    def has_window(self, layer: int) -> bool:
        """Returns whether a layer attends to a window only."""
        every = self.architecture.global_every
        return self.window > 0 and (every == 0 or layer % every != every - 1)
