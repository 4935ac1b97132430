"""Notebooks show compiled models in a short, escaped form with correct plurals."""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from html.parser import HTMLParser
from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.host.fallback import Fallback, summary
from stepwell.runtime.report.html import table
from stepwell.support.wording import quantity

_PLAIN = (str, bytes, int, float, bool, type(None), enum.Enum, np.ndarray, np.generic, np.dtype, type)


def _model(inputs: int = 1, *, strings: bool = False) -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    names = [f"<input & number {place}>" for place in range(inputs)]
    nodes = [helper.make_node("MatMul", [name, "w"], [f"h{place}"]) for place, name in enumerate(names)]
    nodes += [helper.make_node("Relu", [f"h{place}"], [f"y{place}"], f"relu<{place}>") for place in range(inputs)]
    outputs = [helper.make_tensor_value_info(f"y{place}", TensorProto.FLOAT, ["rows", 256]) for place in range(inputs)]
    if strings:
        nodes.append(helper.make_node("Cast", ["y0"], ["s"], "text", to=TensorProto.STRING))
        outputs.append(helper.make_tensor_value_info("s", TensorProto.STRING, ["rows", 256]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 256]) for name in names]
    graph = helper.make_graph(nodes, "g", ports, outputs, [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _walked(*roots: Any) -> list[Any]:
    """Returns the Stepwell objects that are reachable through attributes, properties, sequences and mappings."""
    found, seen, waiting = [], set(), deque(roots)
    while waiting:
        item = waiting.popleft()
        if isinstance(item, _PLAIN) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            waiting.extend([*item.keys(), *item.values()])
        elif isinstance(item, list | tuple | set | frozenset):
            waiting.extend(item)
        elif type(item).__module__.startswith("stepwell"):
            found.append(item)
            fields = [field.name for field in dataclasses.fields(item)] if dataclasses.is_dataclass(item) else []
            names = {*fields, *getattr(item, "__dict__", {})}
            waiting.extend(getattr(item, name) for name in names if hasattr(item, name))
    return found


@pytest.mark.parametrize("options", [{}, {"dims": {"rows": (1, 9)}}], ids=["shapes", "range"])
@pytest.mark.parametrize("strings", [False, True], ids=["native", "host"])
def test_every_object_of_a_compiled_model_has_a_short_repr(options: dict, strings: bool) -> None:
    model = _model(strings=strings)
    if strings and options:
        pytest.skip("what runs on the host serves no range")
    run = stepwell.compile(model, threads=1, options={"fallback": "quiet", "cache": False, **options})
    x = np.ones((3, 256), np.float32)
    run(x)
    made = run.prepare({"<input & number 0>": (4, 256)})
    roots = [run, made, run.programs, run.source, run.report(), run.stored(keep_model=True), run.ranges]
    if not strings:
        roots.append(run.profile({"<input & number 0>": x}, calls=3))
    found = _walked(*roots, read_source(model.SerializeToString()), stepwell.check(model))
    names = {type(item).__name__ for item in found}
    assert {"Executable", "Program", "Report", "PerformanceReport", "Artefact", "TensorInfo", "KernelInfo"} <= names
    assert {"ArtefactSource", "OnnxSource"} <= names
    if strings:
        assert {"ExecutionPlan", "HostStep", "NativeStep", "Fallback"} <= names
    long = {type(item).__name__: len(repr(item)) for item in found if len(repr(item)) >= 1000}
    assert long == {}


def test_many_inputs_are_cut() -> None:
    run = stepwell.compile(_model(40), threads=1)
    assert len(repr(run)) < 1000
    assert "0 programs" in repr(run)
    assert repr(run.source).startswith("ArtefactSource(kind='onnx', contents=<2")


def test_the_repr_of_a_program_names_its_inputs() -> None:
    run = stepwell.compile(_model(), threads=1)
    run(np.ones((3, 256), np.float32))
    assert "1 program>" in repr(run)
    said = repr(run.programs[0])
    assert said.startswith("<Program for <input & number 0>: float32[3, 256]; ")
    assert "1 kernel;" in said
    assert "kB of parameters" in said


class _Checked(HTMLParser):
    """Fails if elements are not nested correctly; keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in ("p", "b", "table", "thead", "tbody", "tr", "th", "td")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", ["executable", "report", "profile", "check"])
def test_notebooks_get_escaped_tables(kind: str) -> None:
    run = stepwell.compile(_model(), threads=1)
    x = np.ones((3, 256), np.float32)
    run(x)
    shown: Any = {
        "executable": lambda: run,
        "report": run.report,
        "profile": lambda: run.profile({"<input & number 0>": x}, calls=3),
        "check": lambda: stepwell.check(_model(strings=True)),
    }[kind]()
    page = _Checked()
    page.feed(shown._repr_html_())
    page.close()
    assert page.open == []
    wanted = {"executable": "<input & number 0>", "report": "relu<0>", "profile": "relu<0>", "check": "text"}
    assert wanted[kind] in page.text


def test_long_tables_say_how_much_is_left_out() -> None:
    assert "and 10 more" in table(("a",), [(place,) for place in range(60)])


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "kernel", "1 kernel"),
        (0, "kernel", "0 kernels"),
        (2, "entry", "2 entries"),
        (2, "array", "2 arrays"),
        (2, "pass", "2 passes"),
        (3, "matrix", "3 matrices"),
        ("n", "element", "n elements"),
        (2, "model input", "2 model inputs"),
    ],
)
def test_numbers_agree_with_their_nouns(number: object, noun: str, said: str) -> None:
    assert quantity(number, noun) == said


def test_one_node_runs_and_two_run() -> None:
    found = [Fallback("a", "Cast"), Fallback("b", "Cast")]
    assert "1 of 1 node runs on the host" in summary(found[:1], 1)
    assert "2 of 3 nodes run on the host" in summary(found, 3)
