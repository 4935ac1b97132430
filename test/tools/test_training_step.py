"""Tools compile the training step of a model, within a budget of memory, and show what it keeps and computes again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.explain.explore.explorer import explore_model
from stepwell.tools import compile as compiling
from stepwell.tools import explore

SHAPES = ("--shape", "x=64x32", "--shape", "target=64")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, (32, 32)).astype(np.float32), f"w{place}") for place in range(4)
    ]
    nodes, last = [], "x"
    for place in range(4):
        nodes.append(helper.make_node("MatMul", [last, f"w{place}"], [f"h{place}"], f"product{place}"))
        nodes.append(helper.make_node("Tanh", [f"h{place}"], [f"t{place}"], f"tanh{place}"))
        nodes.append(helper.make_node("Mul", [f"h{place}", f"t{place}"], [f"r{place}"], f"gate{place}"))
        last = f"r{place}"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 32]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "gates", ports[:1], ports[1:], weights)
    path = tmp_path_factory.mktemp("model") / "gates.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_the_report_says_what_a_budget_keeps_and_computes_again_and_why(model, tmp_path, capsys):
    output = tmp_path / "step.stw"
    given = ["--loss", "cross_entropy", "--memory-budget", "0.7", *SHAPES]
    assert compiling.main([model, "-o", str(output), *given, "--opt-report=json"]) == 0
    (program,) = json.loads(capsys.readouterr().out)["programs"]
    plan = program["recomputation"]
    assert 0 < plan["peak"] <= plan["budget"] < plan["without"]
    again = {value["node"] for value in plan["values"] if value["is_repeated"]}
    kept = {value["node"] for value in plan["values"] if not value["is_repeated"]}
    assert again and kept and all(value["why"] for value in plan["values"])
    assert {f"{name}.again" for name in again} <= {op["name"] for op in program["ops"]}
    trainer = stepwell.Trainer.load(output)
    x, labels = np.random.default_rng(1).standard_normal((64, 32), np.float32), np.arange(64) % 32
    losses = [trainer.step(x, labels) for _ in range(3)]
    assert losses[2] < losses[0]
    (loaded,) = trainer.recomputations
    assert loaded.record() == {**plan, "values": tuple(plan["values"])}
    assert loaded.peak == trainer.executables[0].peak_bytes
    text = str(trainer.executables[0].report())
    assert "the backward pass reads it" in text and "if nothing were computed again" in text


def test_a_step_without_a_budget_has_no_plan(model, tmp_path, capsys):
    given = ["--loss", "cross_entropy", "--optimizer", "sgd", "--learning-rate", "0.5", *SHAPES]
    output = tmp_path / "plain.stw"
    assert compiling.main([model, "-o", str(output), *given, "--opt-report"]) == 0
    assert "computed again" not in capsys.readouterr().out
    trainer = stepwell.Trainer.load(output)
    assert trainer.learning_rate == 0.5 and not trainer.recomputations


@pytest.mark.sweep
def test_explore_shows_the_plan_of_a_step(model, tmp_path, monkeypatch):
    records = []

    def recorded(*args, **more):
        records.append(explore_model(*args, **more))
        return records[-1]

    monkeypatch.setattr("stepwell.explain.explore.explorer.explore_model", recorded)
    output = tmp_path / "gates.html"
    given = ["--loss", "cross_entropy", "--memory-budget", "0.7", *SHAPES, "--no-assembly"]
    assert explore.main([model, "-o", str(output), *given]) == 0
    assert Path(output).stat().st_size > 0
    (piece,) = records[0].record["pieces"]
    plan = piece["report"]["recomputation"]
    names = {node["name"] for node in piece["graph"]["nodes"]}
    again = {value["node"] for value in plan["values"] if value["is_repeated"]}
    assert again and {f"{name}.again" for name in again} <= names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--memory-budget", "0.5"], "--memory-budget needs --loss"),
        (["--loss", "mse", "--keep-model"], "--loss cannot be combined with --keep-model"),
        (["--loss", "best"], "there is no 'best'"),
        (["--loss", "mse"], "input 'x' has no fixed shape"),
        (["--loss", "mse", "--shape", "x=64x32"], "target"),
    ],
)
def test_options_that_do_not_make_a_step_are_refused(model, tmp_path, capsys, given, message):
    assert compiling.main([model, "-o", str(tmp_path / "none.stw"), *given]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none.stw").exists()


def test_explore_takes_one_set_of_shapes(model, tmp_path, capsys):
    given = ["--loss", "cross_entropy", *SHAPES, "--shape", "x=8x32"]
    assert explore.main([model, "-o", str(tmp_path / "none.html"), *given]) == 2
    assert "several sets of --shape" in capsys.readouterr().err
