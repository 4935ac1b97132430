"""Models of Hugging Face folders: text by tokenizer.json, ends and chat templates of the files beside it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell

for name in ("gguf", "jinja2", "tokenizers"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from stepwell.frontend.errors import ModelError  # noqa: E402
from stepwell.lm.folder_tokenizer import tokenizer_of_folder  # noqa: E402
from stepwell.runtime import safetensors  # noqa: E402
from stepwell.support.packages import MissingPackageError  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors  # noqa: E402

from .decoders import written  # noqa: E402

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "eos_token_id": 257,
    "tie_word_embeddings": True,
}


def write_tokenizer(folder: Path) -> None:
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE({**letters, "<s>": 256, "</s>": 257}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [257, 10]}))


def write_weights(folder: Path) -> None:
    rng, layer = np.random.default_rng(0), "model.layers.0"
    shapes = {"model.embed_tokens": (258, 32), "model.norm": (32,)}
    shapes |= {f"{layer}.{norm}_layernorm": (32,) for norm in ("input", "post_attention")}
    shapes |= {f"{layer}.self_attn.{part}_proj": (32, 32) for part in "qkvo"}
    shapes |= {f"{layer}.mlp.{part}_proj": (32, 32) for part in ("gate", "up", "down")}
    weights = {f"{name}.weight": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    (folder / "model.safetensors").write_bytes(b"".join(safetensors.chunks(weights)))


@pytest.mark.sweep
def test_text_of_a_folder(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    write_weights(tmp_path)
    model = stepwell.lm.load(tmp_path, context=32, threads=1)
    assert model.tokenizer.encode("ab") == [256, *model.tokenizer.encode("ab", begins=False)]
    pool, unread, chosen = model.pool(), model.tokenizer.encode("Once"), []
    text = pool.table.text()
    for _ in range(6):
        unread = [int(pool.read(text, unread).argmax())]
        chosen += unread
    assert not model.tokenizer.ends & set(chosen)
    assert model.generate("Once", most=6) == model.tokenizer.decode(chosen)


def test_special_tokens_and_templates(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    tokenizer = tokenizer_of_folder(tmp_path)
    assert tokenizer.ends == {257, 10}
    prompt = tokenizer.chat([{"role": "user", "content": "a"}])
    assert prompt == "<s>user: a\n"
    assert tokenizer.encode(prompt).count(256) == 1
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}{{ eos_token }}")
    assert tokenizer_of_folder(tmp_path).chat([{"role": "user", "content": "a"}]) == "a</s>"


@pytest.mark.parametrize(("contents", "message"), [(None, "lacks tokenizer.json"), ("{}", "a damaged tokenizer.json")])
def test_no_or_a_damaged_tokenizer(contents: str | None, message: str, tmp_path: Path) -> None:
    if contents is not None:
        (tmp_path / "tokenizer.json").write_text(contents)
    with pytest.raises(ModelError, match=message):
        tokenizer_of_folder(tmp_path)


@pytest.mark.sweep
def test_a_grammar_without_its_package_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = stepwell.lm.load(written(tmp_path), context=32, threads=1)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llguidance" else found(name))
    with pytest.raises(MissingPackageError, match=r"a grammar: needs the package llguidance: run `pip install"):
        model.generate("a", stepwell.lm.SamplingOptions(grammar='start: "a"'), most=2)
