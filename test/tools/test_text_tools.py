"""`stepwell-chat` and `stepwell-serve`: texts of a model by its chat template or without one, and errors."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

for package in ("gguf", "tokenizers", "jinja2"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder  # noqa: E402
from stepwell.lm.loading import load  # noqa: E402
from stepwell.lm.sampling import SamplingOptions  # noqa: E402
from stepwell.tools import chat, serve  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
SIZES = {"layers": 1, "hidden": 32, "heads": 2, "key_heads": 1, "intermediate": 32, "context": 64}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with a chat template, and one without."""
    folder = tmp_path_factory.mktemp("chat")
    for name, more in (("chat", {"tokenizer.chat_template": TEMPLATE}), ("text", {})):
        config = GgufConfig(kind="F32", vocabulary=264, settings={**byte_tokenizer(), **more}, **SIZES)
        write_decoder(folder / f"{name}.gguf", config)
    return folder / "chat.gguf", folder / "text.gguf"


def run(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return chat.main([*arguments, "--threads=1"])


def answers(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["answer"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.sweep
def test_messages_are_answered_by_the_template(paths, monkeypatch, capsys):
    messages = "ab\ncd\n/reset\n\nab\n/exit\nno\n"
    assert run(monkeypatch, messages, str(paths[0]), "--most=4", "--system=s", "--json") == 0
    first, second, again = answers(capsys)
    model = load(paths[0], threads=1)
    said = f"system: s\nuser: ab\nassistant: {first}\nuser: cd\n"
    assert model.generate("system: s\nuser: ab\n", most=4) == first == again
    assert model.generate(said, most=4) == second


def test_keys_and_values_in_int8(paths, monkeypatch, capsys):
    assert run(monkeypatch, "ab\n", str(paths[1]), "--most=8", "--cache=int8", "--json") == 0
    assert answers(capsys) == [load(paths[1], threads=1, cache="int8").generate("ab", most=8)]
    with pytest.raises(SystemExit):
        run(monkeypatch, "ab\n", str(paths[1]), "--cache=int3")
    assert "--cache: invalid choice: 'int3'" in capsys.readouterr().err


def test_proposed_tokens_are_counted(paths, monkeypatch, capsys):
    texts = []
    for more in ((), ("--lookup=3",)):
        assert run(monkeypatch, "abababab\n", str(paths[1]), "--most=40", "--json", *more) == 0
        texts.append(json.loads(capsys.readouterr().out))
    assert texts[0]["answer"] == texts[1]["answer"]
    assert "proposed" not in texts[0] and 0 <= texts[1]["accepted"] <= texts[1]["proposed"] > 0
    assert run(monkeypatch, "abababab\n", str(paths[1]), "--most=40", "--lookup=3") == 0
    assert "proposed tokens accepted" in capsys.readouterr().err


def test_a_model_without_a_template_continues_the_text(paths, monkeypatch, capsys):
    sampling = SamplingOptions(temperature=1, seed=3)
    assert run(monkeypatch, "ab\ncd\n", str(paths[1]), "--most=4", "--temperature=1", "--seed=3", "--json") == 0
    first, second = answers(capsys)
    model = load(paths[1], threads=1)
    assert model.generate("ab", sampling, most=4) == first
    assert model.generate(f"ab{first}cd", sampling, most=4) == second


def test_figures_are_printed_beside_the_answer(paths, monkeypatch, capsys):
    assert run(monkeypatch, "ab\n", str(paths[0]), "--most=4") == 0
    printed = capsys.readouterr()
    assert printed.out == load(paths[0], threads=1).generate("user: ab\n", most=4) + "\n"
    assert "4 tokens, " in printed.err and " tokens/s, first after " in printed.err


def test_an_interrupt_ends_the_answer_only(paths, monkeypatch, capsys):
    encode, encoded = chat._Chat.answer, []

    def interrupted(self, message):
        for part in encode(self, message):
            if not encoded:
                signal.raise_signal(signal.SIGINT)
            encoded.append(part)
            yield part

    monkeypatch.setattr(chat._Chat, "answer", interrupted)
    assert run(monkeypatch, "ab\ncd\n", str(paths[1]), "--most=9", "--json") == 0
    first, second = answers(capsys)
    assert first and len(first) < len(second)


def test_errors(paths, monkeypatch, capsys):
    assert run(monkeypatch, "a" * 64, str(paths[1])) == 1
    assert "the prompt has 64 tokens, and the context 64" in capsys.readouterr().err
    assert run(monkeypatch, "a", str(paths[1]), "--system=s") == 2
    assert "--system needs a chat template" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(monkeypatch, "a", str(paths[1])) == 1
    assert "a chat: needs the package gguf: run `pip install '.[lm]'`" in capsys.readouterr().err


def test_a_client_of_openai_is_served(paths):
    openai = pytest.importorskip("openai", reason="the package openai is not installed")
    command = ["stepwell-serve", str(paths[0]), "--port=0", "--sequences=1", "--threads=1", "--cache=int8", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            planned = json.loads(server.stdout.readline())
            assert (planned["model"], planned["context"]) == ("chat", 64)
            assert planned["key_value_bytes"] == 64 * 2 * (16 + 4)  # a key and a value of 16 bytes, and their scales
            assert 0.5 < planned["weight_bytes"] / paths[0].stat().st_size <= 1.05
            with openai.OpenAI(base_url=f"{planned['address']}/v1", api_key="any", max_retries=0) as client:
                ask(openai, client, load(paths[0], threads=1, cache="int8"))
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode == 0


def ask(openai, client, model) -> None:
    text = "a question of some length"
    prompt = f"user: {text}\n"
    wanted = model.generate(prompt, most=8)
    asked = {"model": "chat", "messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0}
    answers = [client.chat.completions.create(**asked, logprobs=True, top_logprobs=1) for _ in range(2)]
    assert [answer.choices[0].message.content for answer in answers] == [wanted] * 2
    cached = [answer.usage.prompt_tokens_details.cached_tokens for answer in answers]
    assert cached == [0, len(model.tokenizer.encode(prompt)) - 1]
    assert all(item.logprob == item.top_logprobs[0].logprob <= 0 for item in answers[0].choices[0].logprobs.content)
    stop = wanted[2:4]
    chunks = list(client.chat.completions.create(**asked, stream=True, stop=stop))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == wanted[: wanted.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"
    random = {"model": "chat", "prompt": "ab", "temperature": 1.5, "max_tokens": 8}
    seeds = [client.completions.create(**random, seed=seed).choices[0].text for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]
    with pytest.raises(openai.NotFoundError, match="there is no model 'other'"):
        client.completions.create(model="other", prompt="ab")
    with client.completions.create(model="chat", prompt="ab", stream=True, max_tokens=50) as left:
        next(iter(left))


def test_errors_of_the_server(paths, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve.main([str(paths[0]), f"--port={port}"]) == 2
        assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in capsys.readouterr().err
    assert serve.main([str(paths[0]), "--port=70000"]) == 2
    assert serve.main([str(paths[0].parent / "none.gguf"), "--port=0"]) == 1
    assert "none.gguf: No such file or directory" in capsys.readouterr().err
    assert serve.main([str(paths[0]), "--port=0", "--batch-invariant", "--lookup=2"]) == 1
    assert "batch_invariant excludes lookup and draft" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else 1)
    assert serve.main([str(paths[0])]) == 1
    assert "the server: needs the package uvicorn: run `pip install '.[serve]'`" in capsys.readouterr().err
