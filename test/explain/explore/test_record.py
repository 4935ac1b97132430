"""The record of a compile that the page shows, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.explain.explore.explorer import explore_model, explore_pipeline
from stepwell.explain.explore.page import render
from stepwell.explain.explore.texts import Texts, places_in
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.tools.explore import main

EVIL = '</script><img src=x onerror=alert(1)> loc("x")'


def small_model(folder: Path, name: str = "scale") -> Path:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name),
        helper.make_node("Mul", ["a", "x"], ["b"], "product"),
        helper.make_node("ReduceSum", ["b"], ["y"], "sum", keepdims=1),
    ]
    ports = [
        helper.make_tensor_value_info(port, TensorProto.FLOAT, shape) for port, shape in (("x", (4, 32)), ("y", (1, 1)))
    ]
    graph = helper.make_graph(nodes, "small", ports[:1], ports[1:])
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def places_of(piece: dict, chunk: int) -> set[str]:
    runs = piece["chunks"][chunk]["runs"]
    return {piece["places"][place] for each in runs[1::2] for place in piece["locations"][each]}


def test_every_level_of_a_model_is_there(tmp_path: Path) -> None:
    (piece,) = explore_model(small_model(tmp_path, EVIL)).record["pieces"]
    assert [node["name"] for node in piece["graph"]["nodes"]] == [EVIL, "product", "sum"]
    assert piece["graph"]["edges"] == [(0, 1), (1, 2)]
    phases = [step["phase"] for step in piece["steps"]]
    assert sorted(set(phases), key=phases.index) == ["import", "graph", "kernels", "tiled", "vector", "memref", "llvm"]
    assert 0 < sum("state" in step for step in piece["steps"]) < len(piece["steps"])
    for state in [piece["first"], *(step["state"] for step in piece["steps"] if "state" in step)]:
        assert all(0 <= chunk < len(piece["chunks"]) for chunk in state)
    assert not any(re.search(r" loc\((\"|fused|unknown)", chunk["text"]) for chunk in piece["chunks"])


def test_machine_code_knows_the_nodes(tmp_path: Path) -> None:
    (piece,) = explore_model(small_model(tmp_path)).record["pieces"]
    kernels = {kernel["symbol"] for kernel in piece["kernels"]}
    assert kernels and kernels <= set(piece["assembly"])
    known = set().union(*(places_of(piece, piece["assembly"][symbol]) for symbol in kernels))
    assert {"product", "sum"} <= known
    (without,) = explore_model(small_model(tmp_path), assembly=False).record["pieces"]
    assert without["assembly"] == {}


def test_every_level_of_code_for_a_gpu_is_there(tmp_path: Path) -> None:
    (piece,) = explore_model(small_model(tmp_path), target="cuda:sm_80").record["pieces"]
    phases = [step["phase"] for step in piece["steps"]]
    assert sorted(set(phases), key=phases.index) == ["import", "graph", "kernels", "tiled", "gpu", "nvvm"]
    kernels = {kernel["symbol"] for kernel in piece["kernels"]}
    assert kernels and kernels <= set(piece["assembly"])
    assert {"product", "sum"} <= set().union(*(places_of(piece, piece["assembly"][symbol]) for symbol in kernels))
    text = piece["chunks"][piece["assembly"][min(kernels)]]["text"]
    assert ".entry" in text and ".target sm_80\n" in text and ".loc" not in text and "$L__tmp" not in text


def test_every_range_is_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "ranged.mlir"
    body = '%0 = "stepwell.exp"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> return %0 : tensor<?x8xf32>'
    kind = '(%x: tensor<?x8xf32> {stepwell.name = "x", stepwell.dims = ["n", 8]}) -> tensor<?x8xf32>'
    path.write_text(f"func.func @main{kind} {{ {body} }}")
    exploration = explore_model(path, assembly=False, options={"dims": {"n": [(1, 4), (5, 9)]}})
    assert not exploration.error
    pieces = exploration.record["pieces"]
    assert len(pieces) == 2
    for piece in pieces:
        phases = [step["phase"] for step in piece["steps"]]
        assert sorted(set(phases), key=phases.index) == ["graph", "kernels", "tiled", "vector", "memref", "llvm"]
        assert piece["kernels"] and piece["renamed"]


def test_a_range_says_what_its_kernels_depend_on(tmp_path: Path) -> None:
    node = helper.make_node("Exp", ["x"], ["y"], "power")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([node], "ranged", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "ranged.onnx")
    record = explore_model(tmp_path / "ranged.onnx", assembly=False, options={"dims": {"n": (1, 999)}}).record
    (kernel,) = record["pieces"][0]["report"]["kernels"]
    assert kernel["sizes"]["names"] == ["n"]


def test_passes_on_many_functions_are_one_step(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    body = "(%x: i32) -> i32 { %0 = arith.constant 1 : i32 %1 = arith.addi %0, %0 : i32 return %1 : i32 }"
    path.write_text(f"func.func @a{body}\nfunc.func @b{body}\n")
    record = explore_pipeline(path, Pipeline.parse("builtin.module(func.func(canonicalize,cse))")).record
    (piece,) = record["pieces"]
    assert [(step["pass"], step["ops"], "state" in step) for step in piece["steps"]] == [
        ("canonicalize", 2, True),
        ("cse", 2, False),
    ]
    after = [piece["chunks"][chunk]["symbol"] for chunk in piece["steps"][0]["state"]]
    assert after[1:3] == ["a", "b"]


def test_a_failing_pass_is_shown_with_what_came_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "wrong.mlir", tmp_path / "wrong.html"
    path.write_text("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    pipeline = "builtin.module(canonicalize,stepwell-form-kernels)"
    assert main([str(path), "-o", str(page), "--json", f"--pass-pipeline={pipeline}"]) == 1
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["schema"] == 1 and summary["passes"] == 2 and summary["error"] and summary["error"] in said.err
    (piece,) = read(page)["pieces"]
    assert piece["steps"][-1]["failed"] and piece["failure"]["pass"] == "stepwell-form-kernels"


def test_nothing_of_a_model_is_markup(tmp_path: Path) -> None:
    exploration = explore_model(small_model(tmp_path, EVIL), assembly=False)
    page = render({**exploration.record, "model": EVIL})
    harmless = render({**exploration.record, "model": "small"})
    assert "<img" not in page and page.count("</script>") == harmless.count("</script>")
    assert "http-equiv" in page and re.search(r"script-src ('sha256-[^']+' ?)+; worker-src blob:", page)


def read(page: Path) -> dict:
    packed = re.search(r'<script id="record"[^>]*>([^<]*)</script>', page.read_text(encoding="utf-8"))
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_strings_that_look_like_locations_are_left_alone() -> None:
    texts = Texts()
    line = r'%0 = "a.b"() {x = "loc(\22y\22)"} : () -> i32 loc(fused<"m">["n1"("f.py":1:2), "n2"])'
    bare, location = texts.split(line)
    assert bare == line[: line.index(" loc(fused")]
    assert {texts.places[place] for place in texts.locations[location]} >= {"n1", "f.py:1:2", "n2"}
    assert list(places_in(r'"a\22b"')) == ['a"b']


def test_times_are_measured_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "small.html"
    assert main([str(small_model(tmp_path)), "-o", str(page), "--no-assembly", "--profile"]) == 0
    (piece,) = read(page)["pieces"]
    assert all(kernel["seconds"] > 0 for kernel in piece["kernels"])
    assert {op["name"] for op in piece["report"]["ops"]} >= {"scale", "product", "sum"}
