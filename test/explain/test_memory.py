"""Buffers in the arena over time: rectangles that never overlap, and whose total height is the arena's size."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper
from stepwell.explain import memory

FLOAT = onnx.TensorProto.FLOAT


@pytest.fixture(scope="module")
def program():
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["b"], "second"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "third"),
        helper.make_node("Softmax", ["c"], ["d"], "fourth"),
        helper.make_node("Add", ["d", "a"], ["e"], "fifth"),
        helper.make_node("MatMul", ["e", "w"], ["y"], "last"),
    ]
    x, y = (helper.make_tensor_value_info(name, FLOAT, [32, 64]) for name in "xy")
    graph = helper.make_graph(nodes, "m", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return stepwell.compile(model.SerializeToString())


def test_rectangles_never_overlap(program) -> None:
    (made,) = program.programs
    facts = memory.record(made)
    buffers = facts["buffers"]
    assert facts["schema"] == 1
    assert len(buffers) >= 3
    assert {"first", "third"} <= {item["node"] for item in buffers}
    for index, one in enumerate(buffers):
        for other in buffers[:index]:
            apart_in_time = one["last"] < other["first"] or other["last"] < one["first"]
            left, right = sorted((one, other), key=lambda item: item["offset"])
            assert apart_in_time or left["offset"] + left["bytes"] <= right["offset"]


def test_the_top_is_the_arena_and_nothing_beats_the_bound(program) -> None:
    (made,) = program.programs
    facts = memory.record(made)
    assert max(item["offset"] + item["bytes"] for item in facts["buffers"]) == made.arena_bytes
    assert 0 < facts["lower_bound"] == max(facts["alive_bytes"]) <= made.arena_bytes


def test_bytes_in_use() -> None:
    buffers = [memory.ArenaBuffer("k", "n", 0, 100, 1, 2), memory.ArenaBuffer("k", "m", 128, 64, 2, 3)]
    assert memory.alive_bytes(buffers) == [0, 128, 192, 64]
    assert memory.alive_bytes([]) == []


def test_artefacts_report_memory_too(program, tmp_path: Path) -> None:
    program.save(tmp_path / "m.stw")
    (loaded,) = stepwell.load(tmp_path / "m.stw").programs
    assert memory.record(loaded) == memory.record(program.programs[0])


def test_pictures(program, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (made,) = program.programs
    memory.draw(made, tmp_path / "one.svg")
    memory.draw(made, tmp_path / "other.svg")
    text = (tmp_path / "one.svg").read_text()
    assert "<svg" in text
    assert text == (tmp_path / "other.svg").read_text()
    with pytest.raises(memory.MemoryPictureError, match=r"can be written to \.svg, \.png, \.pdf or \.json"):
        memory.draw(made, tmp_path / "one.html")


def test_without_matplotlib(program, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(memory.MemoryPictureError, match="pip install matplotlib"):
        memory.draw(program.programs[0], tmp_path / "one.svg")


def test_pictures_can_be_written_as_json(program, tmp_path) -> None:
    (made,) = program.programs
    memory.save(made, tmp_path / "memory.json")
    assert json.loads((tmp_path / "memory.json").read_text()) == memory.record(made)
