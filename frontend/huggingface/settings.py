"""Settings of `config.json` by the names of GGUF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ModelError

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi": "phi2",
    "phi3": "phi3",
    "gpt2": "gpt2",
    "gpt_neox": "gptneox",
    "bloom": "bloom",
    "falcon": "falcon",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}
"""Names of GGUF's architectures, by the model types of transformers."""

_UNSUPPORTED: dict[str, tuple[str, Any]] = {"falcon": ("alibi", True)}
_WITH_SWITCHED_WINDOWS = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
_ROTATION = {
    "rope_theta": "rope_theta",
    "partial_rotary_factor": "partial_rotary_factor",
    "rotary_emb_base": "rope_theta",
    "rotary_pct": "partial_rotary_factor",
}
"""Parameters of the rotation that older files have at the top level, and their names since transformers 5."""
_CONTEXT = {"bloom": 2048, "falcon": 2048}
"""Tokens of a text in the training of models whose files may lack the number: BLOOM's model card ("sequence length"),
and the default of transformers' `FalconConfig`."""


def settings_of(config: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """Returns the settings of a decoder.

    Args:
        config: the contents of `config.json`.
        architecture: the name of the architecture in GGUF.

    Raises:
        ModelError: one is missing, or not supported.
    """
    kind = config["model_type"]
    name, refused = _UNSUPPORTED.get(kind, ("", None))
    if name and config.get(name) == refused:
        raise ModelError(f"has the setting {name} = {refused}, which is not supported")
    heads, hidden = _any(config, "num_attention_heads", "n_head"), _any(config, "hidden_size", "n_embd", "n_embed")
    depth = config.get("head_dim") or hidden // heads
    rotation = rotation_of(config)
    found = {
        "block_count": _any(config, "num_hidden_layers", "n_layer"),
        "context_length": _any(
            config, "max_position_embeddings", "n_positions", "seq_length", default=_CONTEXT.get(kind)
        ),
        "embedding_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": key_heads_of(config, heads),
        "attention.key_length": depth,
        "attention.value_length": depth,
        "rope.freq_base": float(rotation.get("rope_theta") or 10000.0),
        "rope.dimension_count": int(depth * rotation.get("partial_rotary_factor", 1.0)),
        "rope.scaling.type": _scaling(rotation),
        "rope.scaling.factor": float(rotation.get("factor") or 1.0),
        "attention.sliding_window": _window(config),
        "use_parallel_residual": config.get("use_parallel_residual", kind == "gpt_neox") is True,
    }
    epsilon = _any(config, "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
    found |= {"attention.layer_norm_rms_epsilon": float(epsilon), "attention.layer_norm_epsilon": float(epsilon)}
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        found[name] = float(config.get(name) or 0.0)
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        found |= {"expert_count": experts, "expert_used_count": _any(config, "num_experts_per_tok")}
        if "norm_topk_prob" in config:
            found["expert_weights_norm"] = config["norm_topk_prob"]
    return {"stepwell.rotates_halves": True, **{f"{architecture}.{key}": value for key, value in found.items()}}


def key_heads_of(config: Mapping[str, Any], heads: int) -> int:
    """Returns the number of heads of keys."""
    if config["model_type"] == "falcon":
        has_groups = config.get("new_decoder_architecture")
        return config.get("num_kv_heads") or heads if has_groups or not config.get("multi_query", True) else 1
    return config.get("num_key_value_heads") or heads


def rotation_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of the rotation in layers without a window, wherever the file stores them."""
    found = {new: config[name] for name, new in _ROTATION.items() if config.get(name) is not None}
    for place in ("rope_scaling", "rope_parameters"):
        given = config.get(place) or {}
        found |= {key: value for key, value in given.get("full_attention", given).items() if value is not None}
    return found


def _scaling(rotation: Mapping[str, Any]) -> str:
    kind = rotation.get("rope_type") or rotation.get("type") or "none"
    return "none" if kind in ("default", "llama3", "proportional") else kind  # Llama 3 has factors of frequencies


def _window(config: Mapping[str, Any]) -> int:
    is_on = config.get("use_sliding_window", config["model_type"] not in _WITH_SWITCHED_WINDOWS)
    return (config.get("sliding_window") or 0) if is_on else 0


def _any(config: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    found = next((config[name] for name in names if config.get(name) is not None), default)
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise ModelError(f"config.json lacks the number '{names[0]}'")
    return found
