"""The page in a real browser, driven by the DevTools protocol; skipped if no browser is installed."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.explain.explore.explorer import explore_model, explore_pipeline
from stepwell.explain.explore.page import render
from stepwell.passes.infra.pipeline import Pipeline

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(NAMES)} is installed")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1440,860 --remote-debugging-pipe"
)
EVIL = "</script><img src=x onerror=alert(1)>"
SECONDS = 40


class Page:
    """A page in a separate browser."""

    def __init__(self, folder: Path) -> None:
        self.numbers, self.events = itertools.count(1), []
        theirs_in, self.output = os.pipe()
        self.input, theirs_out = os.pipe()
        # The browser reads from 3 and writes to 4.
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (theirs_in, theirs_out)]
        self.process = subprocess.Popen(
            [str(CHROMIUM), *QUIET.split(), f"--user-data-dir={folder}"],
            preexec_fn=lambda: (os.dup2(high[0], 3), os.dup2(high[1], 4)),
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for each in (*high, theirs_in, theirs_out):
            os.close(each)
        self.waiting, self.session = b"", None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.waiting:
            data = os.read(self.input, 1 << 16)
            assert data, "the browser has ended"
            self.waiting += data
        message, _, self.waiting = self.waiting.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.wait("document.body?.dataset.ready && (document.body.dataset.graph || !graph.cards?.length)")

    def ask(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        while not self.ask(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition}: {self.complaints()}"
            time.sleep(0.05)

    def type(self, text: str) -> None:
        for letter in text:
            self.send("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def click(self, selector: str) -> None:
        where = self.ask(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def text(self, selector: str) -> str:
        return self.ask(f"document.querySelector({json.dumps(selector)}).textContent")

    def complaints(self) -> list[Any]:
        """Returns the page's errors and console messages, and its network requests."""
        found = []
        for event in self.events:
            told = event.get("params", {})
            if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                found.append(told)
            url = told.get("request", {}).get("url", "file:")
            if event.get("method") == "Network.requestWillBeSent" and not url.startswith(("file:", "blob:")):
                found.append(url)
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    opened = Page(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.process.kill()
    opened.process.wait()
    os.close(opened.input)
    os.close(opened.output)


def write_model(folder: Path) -> Path:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], EVIL),
        helper.make_node("Mul", ["a", "x"], ["b"], "product"),
        helper.make_node("Softmax", ["b"], ["y"], "probabilities", axis=1),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 32)) for name in "xy"]
    graph = helper.make_graph(nodes, "small", ports[:1], ports[1:])
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_model(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "small.html"
    file.write_text(render(explore_model(write_model(tmp_path)).record), encoding="utf-8")
    page.open(file)
    assert page.ask("document.querySelectorAll('.card .item').length") == 3
    assert page.ask("document.querySelectorAll('.row.add').length + document.querySelectorAll('.row.del').length") > 0
    page.type("/")
    page.type("produ")
    assert page.text("#found li") == "productstepwell.mul"
    page.click("#found li")
    page.wait("!document.getElementById('op').hidden")
    assert page.text("#op h2") == "product"
    levels = page.ask("[...document.querySelectorAll('#op h3')].map((each) => each.firstChild.textContent)")
    assert levels == ["input", "import", "graph", "kernels", "tiled", "vector", "memref", "llvm", "machine code"]
    facts = page.text("#op dl")
    assert "ONNX operatorMul of opset 17" in facts
    assert "readsa, xwritesb" in facts
    page.ask("choose([piece.graph.nodes.findIndex((each) => each.name === 'probabilities')], true)")
    assert "attribute axis1" in page.text("#op dl")
    page.click("[data-tab=levels]")
    page.ask("showStep(piece.steps.findIndex((each) => each.pass === 'stepwell-apply-schedules'))")
    assert page.ask("document.querySelectorAll('#code .code').length") == 2
    assert page.ask("document.querySelectorAll('.row.hit').length") > 0
    page.click("#show-text")
    assert page.ask("document.querySelectorAll('#code .code').length") == 1
    page.click("#heat")
    assert "time per call" in page.text("#legend")
    assert page.ask("document.querySelector('.card rect.body').style.fill") != ""
    page.click("[data-tab=kernels]")
    assert page.ask("document.querySelectorAll('#kernels tbody tr').length") > 0
    shown = page.ask(f"choose([piece.graph.nodes.findIndex((each) => each.name === {json.dumps(EVIL)})], true)")
    assert shown is None and page.text("#op h2") == EVIL
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert page.complaints() == []


def test_numbers_are_written_for_people(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "small.html"
    file.write_text(render(explore_model(write_model(tmp_path), assembly=False).record), encoding="utf-8")
    page.open(file)
    cases = {
        "duration(0.0000012345)": "1.23 µs",
        "duration(3.2e-10)": "0.32 ns",
        "duration(1234.5)": "1\u202f235 s",
        "amount(451234, 'FLOP')": "451 kFLOP",
        "amount(999.9, 'B')": "1 kB",
        "percent(0.0592)": "5.9 %",
        "plainNumber(1234567)": "1\u202f234\u202f567",
        "plainNumber(0.333333333)": "0.333",
        "plainNumber(0.0000012345)": "1.23e-6",
        "valueOf('operands', [{dtype: 'float32', shape: [4, 8], layout: 'row-major', is_result: true}])": (
            "float32[4x8], layout row-major, is result"
        ),
        "valueOf('vector_bytes', 32)": "32 B",
        "titleOf('predicted_seconds')": "estimated time",
    }
    assert {expression: page.ask(expression) for expression in cases} == cases
    page.ask("choose([0], true)")
    assert not page.ask(r"/\d\.\d{6}/.test(document.querySelector('#op dl').textContent)")
    assert page.complaints() == []


def test_the_minimap_moves_the_view(page: Page, tmp_path: Path) -> None:
    path, file = tmp_path / "long.mlir", tmp_path / "long.html"
    ops = [f"  %v{at + 1} = arith.addi %v{at}, %v{at} : i32" for at in range(60)]
    path.write_text("func.func @f(%v0: i32) -> i32 {\n" + "\n".join(ops) + "\n  return %v60 : i32\n}\n")
    file.write_text(render(explore_pipeline(path, Pipeline.parse("builtin.module(canonicalize)")).record))
    page.open(file)
    page.wait("!document.getElementById('minimap').hasAttribute('hidden')")
    assert page.ask("document.querySelectorAll('#minimap rect').length") == 61
    before = page.ask("+document.querySelector('#minimap .view').getAttribute('y')")
    page.click("#minimap")
    view = "document.querySelector('#minimap .view')"
    middle = page.ask(f"{view}.y.baseVal.value + {view}.height.baseVal.value / 2")
    bounds = page.ask("graph.bounds()")
    assert abs(middle - (bounds["top"] + bounds["bottom"]) / 2) < 0.02 * (bounds["bottom"] - bounds["top"])
    assert middle > before
    page.ask("graph.choose([7])")
    assert page.ask("document.querySelectorAll('#minimap .found').length") == 1
    page.ask("d3.select(graph.svg).call(graph.zoom.transform, d3.zoomIdentity.scale(0.02).translate(9000, 2000))")
    assert page.ask("document.getElementById('minimap').hasAttribute('hidden')")
    assert page.complaints() == []


def test_a_pass_that_fails(page: Page, tmp_path: Path) -> None:
    path, file = tmp_path / "wrong.mlir", tmp_path / "wrong.html"
    path.write_text("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    pipeline = Pipeline.parse("builtin.module(canonicalize,stepwell-form-kernels)")
    file.write_text(render(explore_pipeline(path, pipeline).record), encoding="utf-8")
    page.open(file)
    assert page.text("#failure").startswith("Failed at stepwell-form-kernels")
    assert page.text("#steps .failed span") == "form-kernels"
    assert page.complaints() == []


def test_a_thousand_ops(page: Page, tmp_path: Path) -> None:
    path, file = tmp_path / "long.mlir", tmp_path / "long.html"
    ops = [f"  %v{at + 1} = arith.addi %v{at}, %v{max(0, at - at % 7)} : i32" for at in range(1000)]
    path.write_text("func.func @f(%v0: i32) -> i32 {\n" + "\n".join(ops) + "\n  return %v1000 : i32\n}\n")
    file.write_text(render(explore_pipeline(path, Pipeline.parse("builtin.module(canonicalize,cse)")).record))
    page.open(file)
    assert page.ask("document.querySelectorAll('.card').length") == 1000
    assert page.ask("document.querySelectorAll('.row').length") < 300
    assert page.complaints() == []
