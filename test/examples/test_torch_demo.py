"""The demonstration of PyTorch: its answers, and the times of models in turns."""

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("torch_demo", ROOT / "examples" / "torch_demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wrong_answer_is_found(demo, capsys):
    known = torch.eye(4)
    right = [known[place] for place in demo.QUESTIONS.values()]
    assert not demo._answer(known, right)
    question = next(iter(demo.QUESTIONS))
    assert demo._answer(known, [known[3], *right[1:]]) == [question]
    assert f"{question}\n    1.00  {demo.SENTENCES[3]}" in capsys.readouterr().out


def test_times(demo, monkeypatch):
    calls = []
    monkeypatch.setattr(demo, "_meaning", lambda model, text: calls.append((model, text)))
    assert set(demo._times({"one": 1, "two": 2}, ["a", "b"])) == {"one", "two"}
    assert calls[:4] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")] and len(calls) == 4 * demo.TURNS
