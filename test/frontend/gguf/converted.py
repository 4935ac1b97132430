"""Decoders of the package transformers with random weights, written as GGUF files by the names of llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

CONTEXT = 128
_EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
_BUFFERS = (".attn.bias", ".masked_bias", "rotary_emb.inv_freq")
_EXPERTS = {".gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"), ".down_proj": ("ffn_down_exps",)}
_STORED_BY_INPUTS = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def random_decoder(kind: str, settings: dict[str, Any]) -> Any:
    """Makes a decoder of a kind ("llama", "gemma3_text"), with random norms and biases too."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            random = torch.randn_like(weight)
            weight.copy_(weight + 0.1 * random if weight.ndim == 1 else random / weight.shape[-1] ** 0.5)
    return model


def write_converted(path: Path, architecture: str, model: Any) -> None:
    """Writes a decoder under the name of an architecture of llama.cpp."""
    config, writer = model.config, gguf.GGUFWriter(path, architecture)
    heads = config.num_attention_heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    if config.model_type == "falcon":
        key_heads = config.num_kv_heads if config.new_decoder_architecture else 1
    depth = getattr(config, "head_dim", None) or config.hidden_size // heads
    rotation = getattr(config, "rope_parameters", None) or {}
    base = rotation.get("full_attention", rotation).get("rope_theta", 10000.0)
    epsilon = next(value for name in _EPSILONS if (value := getattr(config, name, None)) is not None)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(depth)
    writer.add_value_length(depth)
    writer.add_layer_norm_rms_eps(epsilon)
    writer.add_layer_norm_eps(epsilon)
    writer.add_rope_freq_base(base)
    writer.add_rope_dimension_count(int(depth * rotation.get("partial_rotary_factor", 1.0)))
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, name, None):
            writer.add_float32(f"{architecture}.{name}", getattr(config, name))
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if getattr(config, "use_parallel_residual", False):
        writer.add_parallel_residual(True)
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name.endswith(_BUFFERS) or (name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        array = weight.numpy()
        if ".experts." in name:
            _write_experts(writer, name, array)
            continue
        if "query_key_value." in name:
            array = _in_turn(array, config, heads, depth)
        if architecture == "gpt2" and name.endswith(_STORED_BY_INPUTS):
            array = array.T
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            array = array + 1
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            array = _in_pairs(array, heads if "q_proj" in name else key_heads)
        suffixes = (".weight", ".bias")
        stored = names.get_name(name, suffixes) or names.get_name(name.removeprefix("transformer."), suffixes)
        assert stored is not None, name
        writer.add_tensor(stored, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_experts(writer: gguf.GGUFWriter, name: str, array: np.ndarray) -> None:
    """Writes the stacked weights of experts [experts, rows, inputs]; gate and up are one tensor of transformers."""
    layer = name.split(".layers.")[1].split(".")[0]
    roles = next(roles for end, roles in _EXPERTS.items() if name.endswith(end))
    for role, part in zip(roles, np.split(array, len(roles), axis=1), strict=True):
        writer.add_tensor(f"blk.{layer}.{role}.weight", np.ascontiguousarray(part))


def _in_turn(array: np.ndarray, config: Any, heads: int, depth: int) -> np.ndarray:
    """Reorders the rows of a fused projection: all queries, all keys, all values."""
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return array
    groups = getattr(config, "num_kv_heads", None) or heads
    parts = array.reshape(groups, heads // groups + 2, depth, *array.shape[1:])
    ordered = (parts[:, :-2], parts[:, -2], parts[:, -1])
    return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in ordered])


def _in_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorders the rows of each head, so that the elements that rotate together are neighbours."""
    rows, inputs = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, inputs).swapaxes(1, 2).reshape(rows, inputs)
