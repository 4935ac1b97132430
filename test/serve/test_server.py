"""The HTTP server: OpenAI's forms, streams, errors, metrics, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

for package in ("gguf", "tokenizers", "starlette", "prometheus_client", "httpx2"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

from starlette.testclient import TestClient  # noqa: E402
from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder  # noqa: E402
from stepwell.frontend.gguf.reader import read_gguf  # noqa: E402
from stepwell.lm.file_tokenizer import tokenizer_of_file  # noqa: E402
from stepwell.lm.grammar import json_schema  # noqa: E402
from stepwell.lm.sampling import SamplingOptions  # noqa: E402
from stepwell.serve.server import ServerOptions, TextServer  # noqa: E402

from .echo import EchoEngine  # noqa: E402

TEMPLATE = (
    "{% for m in messages %}{% if m.content == 'refuse' %}{{ raise_exception('no') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)
SETTINGS = {**byte_tokenizer(), "tokenizer.chat_template": TEMPLATE}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoEngine]:
    path = tmp_path_factory.mktemp("serve") / "model.gguf"
    sizes = {"layers": 1, "hidden": 32, "heads": 2, "key_heads": 1, "intermediate": 32}
    write_decoder(path, GgufConfig(kind="F32", vocabulary=264, settings=SETTINGS, **sizes))
    engine = EchoEngine(tokenizer_of_file(read_gguf(path)))
    yield engine
    engine.close()


OPTIONS = ServerOptions("tiny", SamplingOptions(temperature=0.7), most_requests=4, most_bytes=4000)


@pytest.fixture
def server(engine: EchoEngine) -> TextServer:
    return TextServer(engine.model, engine, OPTIONS)


@pytest.fixture(scope="module")
def client(engine: EchoEngine) -> Iterator[TestClient]:
    with TestClient(TextServer(engine.model, engine, OPTIONS).app) as client:
        yield client


def events(body: str) -> list[dict[str, Any]]:
    parts = body.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def test_a_chat_is_answered(client: TestClient):
    reply = client.post(CHAT, json={"model": "tiny", "messages": user("abc"), "max_tokens": 5}).json()
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": "abcab", "refusal": None}
    assert (reply["object"], reply["model"], choice["finish_reason"]) == ("chat.completion", "tiny", "length")
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert reply["usage"] == {**usage, "prompt_tokens_details": {"cached_tokens": 1}}


def test_parts_of_a_message_are_one_text(client: TestClient):
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]
    messages = [{"role": "developer", "content": "x"}, {"role": "user", "content": parts}]
    reply = client.post(CHAT, json={"messages": messages, "max_completion_tokens": 5}).json()
    assert reply["choices"][0]["message"]["content"] == "xabcd"


def test_a_chat_is_streamed(client: TestClient):
    asked = {"messages": user("öb"), "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}
    reply = client.post(CHAT, json=asked)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *chunks, last = events(reply.text)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}]
    assert len({chunk["id"] for chunk in [*chunks, last]}) == 1
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 4)


@pytest.mark.parametrize("streams", [False, True])
def test_a_text_is_continued(client: TestClient, streams: bool):
    asked = {"prompt": ["ab"], "max_tokens": 3, "logprobs": 1, "stream": streams}
    reply = client.post(COMPLETIONS, json=asked)
    replies = events(reply.text) if streams else [reply.json()]
    choices = [reply["choices"][0] for reply in replies]
    assert "".join(choice["text"] for choice in choices) == "aba"
    assert choices[-1]["finish_reason"] == "length"
    found = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    assert [item for each in found for item in each["tokens"]] == ["a", "b", "a"]
    assert [item for each in found for item in each["text_offset"]] == [0, 1, 2]
    assert [item for each in found for item in each["top_logprobs"]] == [{"a": -0.5}, {"b": -0.5}, {"a": -0.5}]
    assert {reply["object"] for reply in replies} == {"text_completion"}
    assert "usage" not in replies[0] or not streams


def test_log_probabilities_of_a_chat(client: TestClient):
    asked = {"messages": user("ab"), "max_tokens": 1, "logprobs": True, "top_logprobs": 2}
    (token,) = client.post(CHAT, json=asked).json()["choices"][0]["logprobs"]["content"]
    first = {"token": "a", "logprob": -0.5, "bytes": [97]}
    assert token == {**first, "top_logprobs": [first, {"token": "!", "logprob": -9999.0, "bytes": [33]}]}


def test_options_reach_the_engine(client: TestClient, engine: EchoEngine):
    given = {
        "temperature": 0.3,
        "top_p": 0.9,
        "top_k": -1,
        "min_p": 0.1,
        "seed": -1,
        "presence_penalty": 1,
        "frequency_penalty": -2,
    }
    client.post(COMPLETIONS, json={"prompt": "ab", **given, "stop": ["x", "yz"], "unknown": 1, "n": 1, "tools": []})
    request = engine.seen[-1]
    assert request.sampling == SamplingOptions(**{**given, "top_k": 0, "seed": (1 << 64) - 1})
    assert (request.stop, request.most, request.logprobs) == (("x", "yz"), 16, None)
    client.post(CHAT, json={"messages": user("ab"), "stop": "x", "temperature": None})
    request = engine.seen[-1]
    assert (request.sampling, request.stop, request.most) == (SamplingOptions(temperature=0.7), ("x",), None)
    client.post(CHAT, json={"messages": user("ab"), "temperature": 1e-300})  # would overflow
    assert engine.seen[-1].sampling.temperature == 0


def test_a_format_is_a_grammar(client: TestClient, engine: EchoEngine):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for given, grammar in (
        ({"type": "text"}, ""),
        ({"type": "json_object"}, json_schema()),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, json_schema(schema)),
    ):
        client.post(CHAT, json={"messages": user("ab"), "response_format": given})
        assert engine.seen[-1].sampling.grammar == grammar


_SCHEMA = "response_format.json_schema"
WRONG = [
    (CHAT, {"messages": []}, 400, "messages", "`array` of length >= 1"),
    (CHAT, {"messages": ["a"]}, 400, "messages[0]", "Expected `object`"),
    (CHAT, {"messages": [{"role": "god", "content": "a"}]}, 400, "messages[0].role", "Invalid enum value 'god'"),
    (CHAT, {"messages": [{"role": "user", "content": 3}]}, 400, "messages[0].content", "got `int`"),
    (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages[0].content[0].type",
        "Invalid enum value 'image_url'",
    ),
    (CHAT, {"messages": user("\ud800")}, 400, None, "is not JSON"),
    (CHAT, {"messages": user("a"), "model": "gpt"}, 404, "model", "there is no model 'gpt'; this server has 'tiny'"),
    (CHAT, {"messages": user("a"), "top_logprobs": 2}, 400, "top_logprobs", "needs logprobs"),
    (CHAT, {"messages": user("a"), "tools": [{}]}, 400, "tools", "is not supported"),
    (CHAT, {"messages": user("a"), "n": 0}, 400, "n", "`int` >= 1"),
    (CHAT, {"messages": user("a"), "n": 5}, 400, None, "asks for 5 texts, and the server makes at most 4"),
    (CHAT, {"messages": user("a"), "best_of": 2}, 400, "best_of", "is not supported"),
    (
        CHAT,
        {"messages": user("a"), "response_format": {"type": "x"}},
        400,
        "response_format.type",
        "Invalid enum value 'x'",
    ),
    (CHAT, {"messages": user("a"), "response_format": {"type": "json_schema"}}, 400, _SCHEMA, "an object"),
    (CHAT, {"messages": user("#grammar")}, 400, "response_format", "the grammar is wrong"),
    (CHAT, {"messages": user("refuse")}, 422, "messages", "its chat template fails: TemplateError: no"),
    (CHAT, {"messages": user("a" * 64)}, 400, None, "the prompt has 64 tokens, and the context 64"),
    (CHAT, {"messages": user("a" * 5000)}, 413, None, "more than 4000 bytes"),
    (COMPLETIONS, {}, 400, "prompt", "is missing"),
    (COMPLETIONS, {"prompt": [1, 300]}, 400, "prompt", "has the token 300, and the model has 260 tokens"),
    (COMPLETIONS, {"prompt": [1, -1]}, 400, "prompt", "must be a text, a list of tokens"),
    (COMPLETIONS, {"prompt": ["a", 1]}, 400, "prompt", "must be a text, a list of tokens"),
    (COMPLETIONS, {"prompt": []}, 400, "prompt", "must be a text, a list of tokens"),
    (COMPLETIONS, {"prompt": ["a"] * 129}, 400, "prompt", "must have at most 128 prompts"),
    (COMPLETIONS, {"prompt": "a", "stream": 1}, 400, "stream", "`bool | null`"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "`int` >= 1"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 1.5}, 400, "max_tokens", "`int | null`"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": True}, 400, "max_tokens", "`int | null`"),
    (COMPLETIONS, {"prompt": "a", "temperature": -1}, 400, "temperature", "`float` >= 0.0"),
    (COMPLETIONS, {"prompt": "a", "temperature": "1"}, 400, "temperature", "got `str`"),
    (COMPLETIONS, {"prompt": "a", "seed": 1 << 70}, 400, "seed", "must be from"),
    (COMPLETIONS, {"prompt": "a", "stop": [1]}, 400, "stop[0]", "Expected `str`"),
    (COMPLETIONS, {"prompt": "a", "stream_options": [1]}, 400, "stream_options", "got `array`"),
]


@pytest.mark.parametrize(("path", "asked", "status", "param", "text"), WRONG, ids=range(len(WRONG)))
def test_wrong_requests(client: TestClient, path: str, asked: dict, status: int, param: str | None, text: str):
    reply = client.post(path, content=json.dumps(asked))
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (status, param)
    assert text in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("streams", [False, True])
def test_several_prompts_and_texts(client: TestClient, engine: EchoEngine, streams: bool):
    tokens = [engine.model.tokenizer.encode(text, begins=False) for text in ("ab", "cde")]
    asked = {"prompt": tokens, "n": 2, "max_tokens": 3, "seed": 7, "stream": streams}
    reply = client.post(COMPLETIONS, json={**asked, "stream_options": {"include_usage": True}})
    replies = events(reply.text) if streams else [reply.json()]
    texts: dict[int, str] = {}
    for choice in (choice for reply in replies for choice in reply["choices"]):
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert texts == {0: "aba", 1: "aba", 2: "cde", 3: "cde"}
    usage = replies[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 12, 17)
    assert [request.sampling.seed for request in engine.seen[-4:]] == [7, 8, 7, 8]


def test_a_later_prompt_that_is_wrong_ends_the_others(client: TestClient, engine: EchoEngine):
    before = len(engine.seen)
    reply = client.post(COMPLETIONS, json={"prompt": ["ab", "a" * 64]})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert len(engine.seen) == before + 1 and engine.seen[-1].is_cancelled
    # Nothing stays open: once the engine has ended the cancelled text, as many texts as the server makes are answered.
    deadline = time.monotonic() + 30
    while (reply := client.post(COMPLETIONS, json={"prompt": "ab", "n": 4, "max_tokens": 1})).status_code == 429:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(reply.json()["choices"]) == 4


def test_a_server_with_a_key_and_origins(engine: EchoEngine):
    options = replace(OPTIONS, api_key="secret", origins=("https://a.example",))
    assert "secret" not in repr(options)
    with TestClient(TextServer(engine.model, engine, options).app) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer s\u00e9cret".encode("latin-1")},
        ):
            for reply in (
                client.get("/v1/models", headers=headers),
                client.get("/metrics", headers=headers),
                client.post(COMPLETIONS, json={"prompt": "a"}, headers=headers),
            ):
                assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        assert client.get("/health").status_code == client.get("/").status_code == 200
        right = {"Authorization": "Bearer secret", "Origin": "https://a.example"}
        reply = client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 1}, headers=right)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "https://a.example")
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        assert client.options(COMPLETIONS, headers={**asked, "Origin": "https://a.example"}).status_code == 200
        assert client.options(COMPLETIONS, headers={**asked, "Origin": "https://b.example"}).status_code == 400


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{" * 3900, b'{"prompt": NaN}'], ids=range(5))
def test_malformed_requests(client: TestClient, body: bytes):
    reply = client.post(COMPLETIONS, content=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_json")


def test_a_text_that_fails(client: TestClient):
    reply = client.post(COMPLETIONS, json={"prompt": "#fail"})
    assert (reply.status_code, reply.json()["error"]["message"]) == (500, "the text failed: broken")
    reply = client.post(COMPLETIONS, json={"prompt": "#fail", "stream": True})
    *_, last = reply.text.strip().split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "server_error"


def test_other_paths(client: TestClient):
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["meta"]) == ("tiny", {"context": 64, "has_chat_template": True})
    assert client.get("/health").json() == {"status": "ok"}
    for reply, status in ((client.get("/v1/nothing"), 404), (client.get(CHAT), 405)):
        assert reply.status_code == status
        assert reply.json()["error"]["type"] == "invalid_request_error"


def test_metrics_are_those_of_the_engine(client: TestClient, engine: EchoEngine):
    client.post(COMPLETIONS, json={"prompt": "a"})
    client.get("/v1/nothing")
    text = client.get("/metrics").text
    assert f"\nstepwell_tokens_total {float(engine.figures.tokens)}\n" in text
    assert "\nstepwell_memory_bytes 1000.0\n" in text
    (ended,) = re.findall(r"^stepwell_request_seconds_count (.*)$", text, re.MULTILINE)
    assert float(ended) >= 1
    assert 'stepwell_errors_total{status="404"}' in text


def test_the_page_needs_no_other_host(client: TestClient):
    reply = client.get("/")
    assert reply.headers["content-type"].startswith("text/html")
    assert "connect-src 'self'" in reply.headers["content-security-policy"]
    assert "v1/chat/completions" in reply.text
    assert re.findall(r"https?:|//\w|src=|@import|url\(", reply.text.replace("//  ", "")) == []


class Caller:
    """A client that speaks ASGI: it may leave before the response is complete."""

    def __init__(self, server: TextServer, asked: dict[str, Any]) -> None:
        self.left, self.sent = asyncio.Event(), []
        self._body: list[bytes] = [json.dumps(asked).encode()]
        scope = {"type": "http", "method": "POST", "path": COMPLETIONS, "headers": [], "query_string": b""}
        self.task = asyncio.create_task(server.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop()}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def _until(reached) -> None:
    async def poll() -> None:
        while not reached():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), 10)


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_that_leaves_cancels_its_text(server: TextServer, engine: EchoEngine, streams: bool):
    async def leave() -> None:
        count = len(engine.seen)
        caller = Caller(server, {"prompt": "ab", "stream": streams})
        await _until(lambda: len(engine.seen) > count)
        assert not engine.seen[-1].is_cancelled
        caller.left.set()
        await caller.task
        assert engine.seen[-1].is_cancelled

    engine.is_held = True
    try:
        asyncio.run(leave())
    finally:
        engine.is_held = False


def test_too_many_requests_are_refused_until_some_end(server: TextServer, engine: EchoEngine):
    async def fill() -> None:
        callers = [Caller(server, {"prompt": "ab"}) for _ in range(5)]
        await _until(lambda: any(caller.sent for caller in callers))
        (refused,) = [caller.sent for caller in callers if caller.sent]
        assert refused[0]["status"] == 429
        assert (b"retry-after", b"1") in refused[0]["headers"]
        assert json.loads(refused[1]["body"])["error"]["type"] == "rate_limit_error"
        engine.is_held = False
        await asyncio.gather(*(caller.task for caller in callers))
        assert sorted(caller.sent[0]["status"] for caller in callers) == [200, 200, 200, 200, 429]
        again = Caller(server, {"prompt": "ab"})
        await again.task
        assert again.sent[0]["status"] == 200

    engine.is_held = True
    try:
        asyncio.run(fill())
    finally:
        engine.is_held = False
