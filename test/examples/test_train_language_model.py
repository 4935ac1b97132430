"""The training of the small language model: its texts, and a file that the frontend of GGUF reads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = Path(__file__).parents[2] / "examples" / "train_language_model.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("train_language_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_language_model"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["train_language_model"]


def test_chats_have_the_form_of_the_template(script) -> None:
    items = [("json", "json.dumps", "Serialize ``obj``\nto a string.\n\nMore."), ("m", "m.f", "f(x, /)\n\nTwice x.")]
    chats = script.conversations(items, seed=0)
    text = "".join(chats)
    assert all(chat.startswith("<s><user>") and chat.endswith("</s>") for chat in chats)
    assert "<assistant>Serialize ``obj`` to a string.</s>" in text
    assert "<assistant>f(x, /): Twice x.</s>" in text
    assert text.count("<user>Hello</s><assistant>Hello!") == 20


def test_held_out_chapters_are_not_trained_on(script) -> None:
    trained, held = script.topics()
    assert len(held) >= 2 and not set(trained) & set(held)


@pytest.mark.sweep
@pytest.mark.slow
def test_a_short_training(script, tmp_path, capsys) -> None:
    """The written file has weights, tokenizer and template in the forms that `load` takes."""
    from stepwell.lm import load

    path = tmp_path / "short.gguf"
    assert script.main(["--seconds", "3", "--output", str(path)]) == 0
    assert "3,672,320 parameters, loss " in capsys.readouterr().out
    model = load(path, threads=1, context=64)
    assert model.tokenizer.decode(model.tokenizer.encode("def f(x):\n    return x")) == "def f(x):\n    return x"
    assert path.with_suffix(".txt").read_text(encoding="utf-8")
