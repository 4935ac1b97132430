"""Code for several levels of processors in one artefact: the best one that a machine runs is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime import processor, safetensors
from stepwell.runtime.artefact import reader
from stepwell.support.errors import ArtefactError
from stepwell.tools import compile, inspect

V3 = frozenset(processor.LEVELS["x86-64-v3"])
V4 = frozenset(processor.LEVELS["x86-64-v4"])
N1 = frozenset(("neon", "dotprod", "fullfp16", "lse", "rcpc", "rdm"))
TARGETS = "aarch64,x86-64-v4,aarch64:neoverse-n1,x86-64-v3"


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = matmul(x + s, w) + b, for four targets."""
    folder = tmp_path_factory.mktemp("levels")
    nodes = [
        helper.make_node("Add", ["x", "s"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["d"]),
        helper.make_node("Add", ["d", "b"], ["y"]),
    ]
    interface = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 33]) for name in "xy"]
    weights = [
        numpy_helper.from_array(np.random.default_rng(0).random(shape, np.float32), name)
        for name, shape in (("s", (33,)), ("w", (33, 33)), ("b", (33,)))
    ]
    graph = helper.make_graph(nodes, "levels", interface[:1], interface[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "levels.onnx")
    path = folder / "levels.stw"
    assert compile.main([str(folder / "levels.onnx"), f"--target={TARGETS}", "-o", str(path), "--quiet"]) == 0
    return path


def pretend(monkeypatch: pytest.MonkeyPatch, architecture: str, features: frozenset[str] | None) -> None:
    """Lets this machine have another processor."""
    plain = None if features is None else frozenset(name.replace(".", "").replace("-", "") for name in features)
    monkeypatch.setattr(processor, "architecture", lambda: architecture)
    monkeypatch.setattr(processor, "system", lambda: "linux")
    monkeypatch.setattr(processor, "features", lambda: plain)


@pytest.mark.parametrize(
    ("architecture", "features", "chosen"),
    [
        ("x86_64", V4, "x86-64-v4"),
        ("x86_64", V3, "x86-64-v3"),
        ("x86_64", V4 - {"avx512vl"}, "x86-64-v3"),
        ("aarch64", N1 | {"bf16", "i8mm", "sve"}, "neoverse-n1"),
        ("aarch64", N1 - {"dotprod"}, "generic"),
    ],
)
def test_the_best_level_is_loaded(monkeypatch, levels, architecture, features, chosen) -> None:
    pretend(monkeypatch, architecture, features)
    assert [program.target.cpu for program in reader.read(levels).programs] == [chosen]


def test_negative_no_level_suits_the_machine(monkeypatch, levels) -> None:
    pretend(monkeypatch, "x86_64", V3 - {"avx2", "fma"})
    with pytest.raises(ArtefactError) as caught:
        reader.read(levels)
    message = str(caught.value)
    assert "the model does not run on this machine: " in message
    assert "code for x86-64-v3 (x86_64-unknown-linux-gnu) needs avx2, fma" in message
    assert (
        "code for aarch64 (aarch64-unknown-linux-gnu) needs aarch64-unknown-linux-gnu (this is x86_64-linux)" in message
    )
    assert "\n" not in message


def test_equal_parameters_are_stored_once(levels) -> None:
    manifest, members = reader.read_manifest(levels)
    used = [{item.tensor for item in program.parameters} for program in manifest.programs]
    shared = set.intersection(*used)
    assert shared, "all levels add the same vectors"
    stored = safetensors.view(members[reader.PARAMETERS])
    assert set(stored) == set.union(*used) and len(stored) < sum(map(len, used))


def test_inspect_shows_the_levels(monkeypatch, levels, capsys) -> None:
    pretend(monkeypatch, "x86_64", V3)
    assert inspect.main([str(levels)]) == 0
    shown = capsys.readouterr().out
    for name in ("aarch64", "neoverse-n1", "x86-64-v4"):
        assert f" {name} (not this machine) " in shown
    assert " x86-64-v3 " in shown and "x86-64-v3 (not" not in shown
    assert inspect.main([str(levels), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["aarch64", "x86-64-v4", "neoverse-n1", "x86-64-v3"]


def test_negative_a_target_is_named_twice(levels, capsys) -> None:
    model = str(levels.with_suffix(".onnx"))
    assert compile.main([model, "--target=x86-64-v3,x86-64-v4,x86-64-v3", "-o", "twice.stw"]) != 0
    assert "--target: x86-64-v3 is named twice" in capsys.readouterr().err
