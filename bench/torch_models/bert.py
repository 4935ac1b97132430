"""A BERT encoder as in transformers, without its framework: its layers, and torch's own attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch  # pyright: ignore[reportMissingImports]
from onnx import numpy_helper
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from ..bert import BertConfig


class BertLayer(nn.Module):
    """One layer: attention and the dense part, each followed by a residual and a norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.context = nn.Linear(hidden, hidden)
        self.context_norm = nn.LayerNorm(hidden, eps=config.epsilon)
        self.inner = nn.Linear(hidden, config.intermediate)
        self.output = nn.Linear(config.intermediate, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=config.epsilon)

    def forward(self, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Maps [batch, length, hidden] to the same shape."""
        batch, length, hidden = value.shape
        query, key, values = (
            part(value).view(batch, length, self.heads, hidden // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        context = functional.scaled_dot_product_attention(query, key, values, attn_mask=mask)
        context = self.context(context.transpose(1, 2).reshape(batch, length, hidden))
        value = self.context_norm(context + value)
        return self.output_norm(self.output(functional.gelu(self.inner(value))) + value)


class Bert(nn.Module):
    """Maps input_ids, attention_mask, token_type_ids [batch, length] to last_hidden_state."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocabulary, config.hidden)
        self.position = nn.Embedding(config.positions, config.hidden)
        self.token_type = nn.Embedding(2, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=config.epsilon)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Returns the last hidden state, [batch, length, hidden]."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        value = self.norm(self.word(ids) + self.token_type(types) + self.position(positions))
        added = (1 - mask[:, None, None, :].to(value.dtype)) * torch.finfo(value.dtype).min
        for layer in self.layers:
            value = layer(value, added)
        return value


_TOP = {"word": "word_embeddings", "position": "position_embeddings", "token_type": "token_type_embeddings"}
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "context": "attention.output.dense",
    "context_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}


def load(path: Path) -> nn.Module:
    """Loads the encoder with the weights of an ONNX file that `bench.bert` created, for inference."""
    stored = {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
    layers = 1 + max(int(name.split(".")[2]) for name in stored if name.startswith("encoder.layer."))
    model = Bert(BertConfig(layers=layers))
    state = {f"{own}.weight": stored[f"embeddings.{name}.weight"] for own, name in _TOP.items()}
    state |= {f"norm.{kind}": stored[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")}
    for layer in range(layers):
        for own, name in _PARTS.items():
            full = f"encoder.layer.{layer}.{name}"
            matrix = stored.get(f"onnx::MatMul_{full}.weight")
            state[f"layers.{layer}.{own}.weight"] = stored[f"{full}.weight"] if matrix is None else matrix.T
            state[f"layers.{layer}.{own}.bias"] = stored[f"{full}.bias"]
    model.load_state_dict({name: torch.from_numpy(np.array(array, order="C")) for name, array in state.items()})
    return model.eval()


def make() -> nn.Module:
    """Creates the encoder with the sizes of all-MiniLM-L6-v2 and arbitrary weights, for inference."""
    return Bert(BertConfig()).eval()
