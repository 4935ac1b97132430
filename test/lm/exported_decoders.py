"""Decoders of transformers, exported to ONNX with a cache as optimum does it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

torch = pytest.importorskip("torch", reason="the package torch is not installed")
transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

SIZES = {"vocab_size": 258, "bos_token_id": 256, "eos_token_id": 257, "initializer_range": 0.3}
LLAMA = {
    **SIZES,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
}
BLOOM = {**SIZES, "hidden_size": 64, "n_layer": 2, "n_head": 4, "seq_length": 64}
GPT2 = {**SIZES, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}


def decoder_of(kind: str, attention: str = "sdpa", **settings: Any) -> Any:
    """Returns a model of transformers with random weights."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **settings)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


class _WithCache(torch.nn.Module):
    """A decoder whose inputs and outputs are tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, *past: Any) -> tuple[Any, ...]:
        cache = transformers.DynamicCache()
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(key, value, layer)
        given = {"attention_mask": attention_mask, "position_ids": position_ids, "past_key_values": cache}
        found = self.model(input_ids=input_ids, use_cache=True, **given)
        kept = [item for layer in found.past_key_values.layers for item in (layer.keys, layer.values)]
        return (found.logits, *kept)


def export(model: Any, path: Path) -> None:
    """Writes a decoder to an ONNX file, with the names of optimum."""
    config = model.config
    layers, depth = config.num_hidden_layers, config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    batch, length, before = 2, 3, 5
    past = [torch.randn(batch, heads, before, depth) for _ in range(2 * layers)]
    places = torch.arange(before, before + length)[None].repeat(batch, 1)
    mask = torch.ones(batch, before + length, dtype=torch.long)
    args = (torch.ones(batch, length, dtype=torch.long), mask, places, *past)
    parts = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    names = ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{part}" for part in parts)]
    outputs = ["logits", *(f"present.{part}" for part in parts)]
    row, whole = {0: "batch_size", 1: "sequence_length"}, "past_sequence_length + sequence_length"
    axes: dict[str, dict[int, str]] = dict.fromkeys(("input_ids", "position_ids", "logits"), row)
    axes["attention_mask"] = {0: "batch_size", 1: whole}
    axes |= {name: {0: "batch_size", 2: "past_sequence_length"} for name in names[3:]}
    axes |= {name: {0: "batch_size", 2: whole} for name in outputs[1:]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _WithCache(model).eval(),
            args,
            str(path),
            input_names=names,
            output_names=outputs,
            dynamic_axes=axes,
            dynamo=False,
            opset_version=17,
        )


def merged(path: Path) -> onnx.ModelProto:
    """Returns a decoder in the branch of an If for calls with a past, as optimum merges two files."""
    model = onnx.load(path)
    graph = model.graph
    outputs = [onnx.ValueInfoProto.FromString(item.SerializeToString()) for item in graph.output]
    branch = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])

    def inner(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
        ports = [helper.make_empty_tensor_value_info(f"{item.name}_{name}") for item in outputs]
        last = [helper.make_node("Identity", [item.name], [f"{item.name}_{name}"]) for item in outputs]
        return helper.make_graph([*nodes, *last], name, [], ports)

    with_past = inner("with_past", [_renamed(node, outputs, "_inner") for node in graph.node])
    for node in with_past.node[-len(outputs) :]:
        node.input[0] += "_inner"
    without = inner("without", [helper.make_node("Identity", [graph.initializer[0].name], [o.name]) for o in outputs])
    names = [item.name for item in outputs]
    choice = helper.make_node("If", ["use_cache_branch"], names, then_branch=with_past, else_branch=without)
    made = helper.make_graph([choice], "merged", [*graph.input, branch], outputs, graph.initializer)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)


def _renamed(node: onnx.NodeProto, outputs: Sequence[onnx.ValueInfoProto], suffix: str) -> onnx.NodeProto:
    """Returns a node in which the outputs of the graph have other names."""
    made, names = onnx.NodeProto.FromString(node.SerializeToString()), {item.name for item in outputs}
    for place in (made.input, made.output):
        place[:] = [item + suffix if item in names else item for item in place]
    return made


def tokens_by_torch(model: Any, prompt: Sequence[int], count: int) -> list[int]:
    """Returns the most probable next tokens by transformers."""
    given = torch.tensor([list(prompt)])
    options = {"do_sample": False, "max_new_tokens": count, "min_new_tokens": count, "eos_token_id": None}
    found = model.generate(given, attention_mask=torch.ones_like(given), pad_token_id=0, **options)
    return found[0, len(prompt) :].tolist()
