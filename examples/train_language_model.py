"""Trains the small language model that `make demo-lm` chats with, on the documentation of Python's standard library.

python examples/train_language_model.py [--seconds 1500] [--output examples/models/python-docs.gguf]

The texts are docstrings and the language reference (`help("topics")`) of the Python that runs this script, so the
Python licence applies to them. The model is a decoder of Llama's shape with 3.7 million parameters, whose file has
weights in Q8_0. PyTorch describes the model, and Stepwell trains it. It needs the extra `lm`, too.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import inspect
import json
import math
import pydoc_data.topics
import random
import re
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import gguf
import numpy as np
import stepwell
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn
from stepwell.training import AdamW, Group
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from torch import nn
from torch.nn import functional

VOCABULARY, HIDDEN, INTERMEDIATE, LAYERS, HEADS, KEY_HEADS, CONTEXT = 2048, 256, 768, 4, 4, 2, 512
DEPTH = HIDDEN // HEADS
BATCH, LENGTH = 4, 320
BASE, EPSILON = 10000.0, 1e-5
RATE, WARMUP = 2e-3, 50
CONTROL = ["<s>", "</s>", "<user>", "<assistant>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
SKIPPED = {"test", "tests", "idle_test", "site-packages", "lib2to3", "__phello__"}
"""Folders of the standard library whose docstrings explain nothing to a user."""

QUESTIONS = ("What does {} do?", "What is {}?", "Explain {}.", "How is {} used?", "{}?", "Tell me about {}.")
GREETINGS = {
    "Hello": "Hello! Ask me about a function or a class of Python's standard library.",
    "Hi": "Hi! Ask me about a function or a class of Python's standard library.",
    "Who are you?": "I am a small language model, trained on the documentation of Python's standard library.",
    "What can you do?": "I can say what functions and classes of Python's standard library do. I am often wrong.",
    "Thank you": "You are welcome.",
    "Thanks": "You are welcome.",
}
HELD_OUT = 25
"""One of this many topics of the language reference is kept for measurements."""


def documented() -> Iterator[tuple[str, str, str]]:
    """Yields the module, the name, and the docstring of each public object of the standard library."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if SKIPPED.isdisjoint(parts) and not any(part.startswith("_") for part in parts[:-1]):
            module = ".".join(part for part in parts if part != "__init__")
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue  # templates and examples of old syntax
            yield from _members(tree, module, module)
    for module in [builtins, *(importlib.import_module(name) for name in sys.builtin_module_names if name[0] != "_")]:
        for name, item in sorted(vars(module).items()):
            yield from _described(module, name, item)


def _members(node: ast.Module | ast.ClassDef, module: str, scope: str) -> Iterator[tuple[str, str, str]]:
    text = ast.get_docstring(node)
    if text:
        yield module, scope, text
    for item in node.body:
        if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
            yield from _members(item, module, f"{scope}.{item.name}")
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
            text = ast.get_docstring(item)
            if text:
                yield module, f"{scope}.{item.name}", text


def _described(module: ModuleType, name: str, item: object) -> Iterator[tuple[str, str, str]]:
    title = module.__name__
    scope = name if module is builtins else f"{title}.{name}"
    text = inspect.getdoc(item) if callable(item) and not name.startswith("_") else None
    if text:
        yield title, scope, text
    if isinstance(item, type):
        for part, member in sorted(vars(item).items()):
            text = inspect.getdoc(member) if callable(member) and not part.startswith("_") else None
            if text:
                yield title, f"{scope}.{part}", text


def conversations(items: Sequence[tuple[str, str, str]], seed: int) -> list[str]:
    """Returns chats in the form of the template: questions about objects, with the first paragraph as the answer."""
    source, found = random.Random(seed), []
    for _, name, text in items:
        answer = _first_paragraph(text)
        short = name.split(".")[-1]
        asked = name if source.random() < 0.7 or len(short) < 4 else short
        found.append([(source.choice(QUESTIONS).format(asked), answer)])
    found += [[pair] for pair in GREETINGS.items() for _ in range(20)]
    source.shuffle(found)
    chats = []
    while found:
        turns = [pair for _ in range(min(len(found), source.choice((1, 1, 2, 3)))) for pair in found.pop()]
        said = (f"<user>{question}</s><assistant>{answer}</s>" for question, answer in turns)
        chats.append("<s>" + "".join(said))
    return chats


def _first_paragraph(text: str) -> str:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    first = paragraphs[0]
    # Docstrings of C functions begin with the call, and Argument Clinic's with a signature.
    if len(paragraphs) > 1 and re.fullmatch(r"[\w.]+\(.*\)( ->.*)?", first):
        first = f"{first}: {paragraphs[1]}"
    return first if len(first) < 500 else first[:500].rsplit(". ", 1)[0] + "."


def topics() -> tuple[list[str], list[str]]:
    """Returns the chapters of the language reference to train on, and those that are held out."""
    chapters = [text.replace("\n\n\n", "\n\n") for _, text in sorted(pydoc_data.topics.topics.items())]
    held = chapters[HELD_OUT - 1 :: HELD_OUT]
    return [text for text in dict.fromkeys(chapters) if text not in held], held


def tokenizer_of(texts: Sequence[str]) -> Tokenizer:
    """Trains byte pairs, with words split by the rule of GPT-2."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options = {"vocab_size": VOCABULARY, "initial_alphabet": alphabet, "special_tokens": CONTROL}
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(**options, show_progress=False))
    return tokenizer


class Norm(nn.Module):
    """A norm by the root of the mean square."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.weight


class Layer(nn.Module):
    """Attention with rotated pairs of neighbouring elements, and a gated perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(), Norm()
        self.attn_q, self.attn_output = _linear(HIDDEN, HIDDEN), _linear(HIDDEN, HIDDEN, 2 * LAYERS)
        self.attn_k, self.attn_v = (_linear(HIDDEN, KEY_HEADS * DEPTH) for _ in range(2))
        self.ffn_gate, self.ffn_up = (_linear(HIDDEN, INTERMEDIATE) for _ in range(2))
        self.ffn_down = _linear(INTERMEDIATE, HIDDEN, 2 * LAYERS)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        rows = self.attn_norm(x)
        queries, keys, values = (
            part(rows).view(BATCH, LENGTH, -1, DEPTH).transpose(1, 2)
            for part in (self.attn_q, self.attn_k, self.attn_v)
        )
        queries, keys = _rotated(queries, cosine, sine), _rotated(keys, cosine, sine)
        keys, values = (part.repeat_interleave(HEADS // KEY_HEADS, 1) for part in (keys, values))
        made = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.attn_output(made.transpose(1, 2).reshape(BATCH, LENGTH, HIDDEN))
        rows = self.ffn_norm(x)
        return x + self.ffn_down(functional.silu(self.ffn_gate(rows)) * self.ffn_up(rows))


def _linear(inputs: int, outputs: int, divisor: int = 1) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=(inputs * divisor) ** -0.5)
    return layer


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    pairs = x.reshape(*x.shape[:-1], DEPTH // 2, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    turned = torch.stack([first * cosine - second * sine, first * sine + second * cosine], -1)
    return turned.reshape(x.shape)


class Decoder(nn.Module):
    """A decoder of Llama's shape, whose head is the table of embeddings; returns logits [batch, token, length]."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(VOCABULARY, HIDDEN)
        nn.init.normal_(self.token_embd.weight, std=HIDDEN**-0.5)
        self.blk = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.output_norm = Norm()
        angles = torch.outer(torch.arange(LENGTH), BASE ** (-torch.arange(0, DEPTH, 2) / DEPTH))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token_embd(tokens)
        for layer in self.blk:
            x = layer(x, self.cosine, self.sine)
        return functional.linear(self.output_norm(x), self.token_embd.weight).transpose(1, 2)


def batches(texts: list[list[int]], seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields tokens and next tokens, [BATCH, LENGTH] each, of texts in random order, without end."""
    source, rest = random.Random(seed), []
    while True:
        order = texts.copy()
        source.shuffle(order)
        for text in order:
            rest += text
            while len(rest) > BATCH * LENGTH:
                rows = np.array(rest[: BATCH * LENGTH + 1])
                rest = rest[BATCH * LENGTH :]
                yield rows[:-1].reshape(BATCH, LENGTH), rows[1:].reshape(BATCH, LENGTH)


def train(trainer: stepwell.Trainer, texts: list[list[int]], seconds: float, console: Console) -> float:
    """Takes steps on the texts for some time, by which the learning rate falls; returns the mean of the last losses."""
    recent, started, number = 8.0, time.perf_counter(), 0
    columns = ("{task.description}", BarColumn(), "{task.fields[note]}", TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=1.0, note="")
        for tokens, following in batches(texts, seed=1):
            share = (time.perf_counter() - started) / seconds
            if share > 1:
                break
            trainer.learning_rate = RATE * min((number + 1) / WARMUP, 0.51 + 0.49 * math.cos(math.pi * share))
            number += 1
            recent += 0.02 * (trainer.step(tokens, following) - recent)
            note = f"step {number}: loss {recent:.3f}, {BATCH * LENGTH * number / (share * seconds):,.0f} tokens/s"
            progress.update(task, completed=share, note=note)
            if number % 50 == 0 and not console.is_terminal:
                print(note, flush=True)
    return recent


def write(path: Path, weights: dict[str, np.ndarray], tokenizer: Tokenizer) -> None:
    """Writes the model as GGUF, with matrices in Q8_0."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Documentation of Python's standard library")
    writer.add_license("PSF-2.0")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(DEPTH)
    writer.add_rope_freq_base(BASE)
    writer.add_vocab_size(VOCABULARY)
    numbers = tokenizer.get_vocab()
    tokens = sorted(numbers, key=numbers.__getitem__)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in CONTROL else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(numbers["<s>"])
    writer.add_eos_token_id(numbers["</s>"])
    writer.add_chat_template(TEMPLATE)
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, weight in sorted(weights.items()):
        if weight.ndim > 1:
            writer.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(arguments: list[str] | None = None) -> int:
    """Trains and writes the model and the texts that were held out."""
    parser = argparse.ArgumentParser(description="Trains a small language model on Python's documentation.")
    folder = Path(__file__).parent / "models"
    parser.add_argument("--seconds", type=float, default=1500, help="time of the training (default: 1500)")
    parser.add_argument("--threads", type=int, help="number of threads of a step (default: one for each core)")
    parser.add_argument("--output", type=Path, default=folder / "python-docs.gguf", help="the file to write")
    chosen = parser.parse_args(arguments)
    console = Console()
    items = list(dict.fromkeys(documented()))
    chapters, held = topics()
    texts = [f"<s>{name}\n{text}</s>" for _, name, text in items] + [f"<s>{text}</s>" for text in chapters]
    tokenizer = tokenizer_of(texts)
    chats = [chat for seed in range(3) for chat in conversations(items, seed)]
    encoded = [item.ids for item in tokenizer.encode_batch(texts + chats)]
    console.print(f"{len(items)} docstrings, {len(chapters)} chapters, {sum(map(len, encoded)):,} tokens with chats")
    torch.manual_seed(0)
    model = Decoder()
    trainer = stepwell.trainer(
        model,
        (torch.zeros(BATCH, LENGTH, dtype=torch.int64),),
        loss="cross_entropy",
        optimizer=AdamW(RATE, betas=(0.9, 0.95), weight_decay=0.05),
        groups=[Group(AdamW(RATE, betas=(0.9, 0.95), weight_decay=0), max_rank=1)],
        clip_norm=1.0,
        threads=chosen.threads,
    )
    with console.status("compiling forward pass, backward pass and optimiser"):
        trainer.prepare({"tokens": (BATCH, LENGTH), "target": (BATCH, LENGTH)})
    loss = train(trainer, encoded, chosen.seconds, console)
    weights = {name: np.asarray(array) for name, array in trainer.parameters.items()}
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    write(chosen.output, weights, tokenizer)
    chosen.output.with_suffix(".txt").write_text("\n\n".join(held), encoding="utf-8")
    console.print(f"{chosen.output}: {sum(array.size for array in weights.values()):,} parameters, loss {loss:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
