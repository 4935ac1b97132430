"""Options that tools share: shapes and inputs, JSON, quiet mode; hints that can be pasted into a shell."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.tools import bisect, cache, compile, explore, inspect, reduce, run, stepwell

TOOLS = [name for name in stepwell.TOOLS if name != "opt"]
TAKE_MODELS = [bisect, compile, explore, reduce, run]
SHARED = ("--shape", "--dims", "--input", "--target", "--no-winograd", "--no-cache", "--json", "--quiet")
PLUGINS = "--load-pass-plugin"
ODD = "it's a = b, c"
"""A name that a shell, and a comma-separated list, would split."""


def save_model(name: str, nodes: list, inputs: dict, outputs: dict) -> str:
    def ports(given):
        return [helper.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in given.items()]

    graph = helper.make_graph(nodes, "tiny", ports(inputs), ports(outputs))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), name)
    return name


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def model() -> str:
    """An ONNX file of `y[n, 8] = exp(x[n, 8])`."""
    nodes = [helper.make_node("Exp", ["x"], ["y"], "exp")]
    return save_model("model.onnx", nodes, {"x": (1, ["n", 8])}, {"y": (1, ["n", 8])})


def parsers(name: str) -> list:
    made = importlib.import_module("stepwell.bench.command" if name == "bench" else f"stepwell.tools.{name}")._parser()
    choices = [action.choices for action in made._actions if isinstance(action.choices, dict) and name != "stepwell"]
    return list(choices[0].values()) if choices else [made]


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_has_json_and_quiet(name):
    for parser in parsers(name):
        assert {"--json", "--quiet"} <= set(parser._option_string_actions)


@pytest.mark.parametrize("tool", TAKE_MODELS)
def test_tools_that_take_models_have_the_same_options(tool):
    assert {*SHARED, PLUGINS} <= set(tool._parser()._option_string_actions)


def test_explaining_the_cache_takes_the_same_options():
    (explain,) = [parser for parser in parsers("cache") if parser.prog.endswith("explain")]
    assert {*SHARED, PLUGINS} <= set(explain._option_string_actions)


@pytest.mark.parametrize("name", [*TOOLS, "stepwell"])
def test_wrong_usage_is_json_if_requested(name, capsys):
    main = importlib.import_module("stepwell.bench.command" if name == "bench" else f"stepwell.tools.{name}").main
    first = {"cache": ["list"], "bench": ["show", "x"], "stepwell": ["soup"]}.get(name, ["model.onnx"])
    with pytest.raises(SystemExit, match="2"):
        main([*first, "--soup", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["kind"]) == (1, "usage")
    assert "soup" in record["reason"]


@pytest.mark.parametrize("tool", TAKE_MODELS)
def test_wrong_values_are_json_too(tool, model, capsys):
    assert tool.main([model, "--shape=x=many", "--json"]) == 2
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["kind"]) == (1, "usage")
    assert "'many' is not the size of a dimension" in record["reason"]


@pytest.mark.parametrize("given", [["--shape=x=2x8"], ["--dims=n=2"], ["--input=x=2x8xf32:ones"], ["--dims=n=1:2"]])
@pytest.mark.parametrize("tool", [bisect, compile, run])
def test_shapes_are_given_in_any_way(tool, given, model, capsys):
    assert tool.main([model, *given, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("given", [["--shape=x=2x8"], ["--dims=n=2"], ["--input=x=2x8xf32:ones"]])
def test_explore_reduce_check_and_the_cache_take_shapes_too(given, model, capsys):
    assert explore.main([model, *given, "--no-assembly", "--quiet"]) == 0
    assert compile.main([model, "--check", *given, "--quiet"]) == 0
    assert compile.main([model, *given, "--quiet"]) == 0
    assert cache.main(["explain", model, *given, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert reduce.main([model, *given, "--once", "--quiet"]) == 0


def test_an_artefact_of_one_shape_just_runs(model, capsys):
    assert compile.main([model, "--shape=x=3x8", "--quiet"]) == 0
    assert run.main(["model.stw"]) == 0
    assert "3x8" in capsys.readouterr().out
    assert compile.main([model, "--dims=n=1:5", "--quiet"]) == 0
    assert run.main(["model.stw"]) == 0
    assert "5x8" in capsys.readouterr().out


def test_settings_of_an_artefact_are_not_options(model, capsys):
    assert compile.main([model, "--shape=x=3x8", "--quiet"]) == 0
    for option in ("--dims=n=3", "--no-winograd", "--precision=bf16", "--checked"):
        assert run.main(["model.stw", option]) == 2
        assert f"{option.partition('=')[0]} cannot be changed for an artefact" in capsys.readouterr().err


def shell(text: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    return subprocess.run(text, shell=True, env=environment, capture_output=True, text=True, check=False)


def hint(printed: str, mark: str) -> str:
    return printed.partition(mark)[2].splitlines()[0].strip()


@pytest.mark.parametrize("tool", [bisect, compile, run])
def test_a_hint_to_add_a_shape_can_be_pasted(tool, capsys):
    odd = {ODD: (1, ["n", 8])}
    save_model("odd name.onnx", [helper.make_node("Exp", [ODD], ["y"], "exp")], odd, {"y": (1, ["n", 8])})
    assert tool.main(["odd name.onnx"]) == 2
    added = hint(capsys.readouterr().err, "): add ")
    assert tool.main(["odd name.onnx", *shlex.split(added), "--quiet"]) == 0


def test_a_hint_to_choose_a_shape_can_be_pasted(model, capsys):
    assert compile.main([model, "--shape=x=2x8", "--shape=x=3x8", "--quiet"]) == 0
    assert run.main(["model.stw"]) == 2
    choices = hint(capsys.readouterr().err, "add one of ").split(" or ")
    assert choices == ["--shape x=2x8", "--shape x=3x8"]
    for choice in choices:
        assert run.main(["model.stw", *shlex.split(choice)]) == 0


@pytest.mark.sweep
def test_the_command_of_a_reduction_can_be_pasted(folder, capsys):
    Path("an odd folder").mkdir()
    nodes = [helper.make_node("RandomUniformLike", [ODD], ["y"], "where")]
    save_model("a model.onnx", nodes, {ODD: (1, [2, 8])}, {"y": (1, [2, 8])})
    assert reduce.main(["a model.onnx", "-o", "an odd folder"]) == 0
    command = hint(capsys.readouterr().out, "reproduce with: ")
    done = shell(command)
    assert done.returncode == 1
    assert "RandomUniformLike" in done.stderr


@pytest.mark.sweep
@pytest.mark.slow
def test_the_command_of_a_bisection_can_be_pasted(folder, capsys):
    wrong = (
        "from stepwell.dialects.stepwell.elementwise import ReluOp\n"
        "from stepwell.passes.graph.patterns import algebra\n"
        "from stepwell.passes.ir.rewriting import Pattern\n"
        "class ReluIsNothing(Pattern[ReluOp]):\n"
        "    root = ReluOp\n"
        "    def rewrite(self, op):\n"
        "        return op.operation.operands[0]\n"
        "algebra.PATTERNS = (*algebra.PATTERNS, ReluIsNothing())\n"
    )
    Path("my wrong.py").write_text(wrong)
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu")]
    save_model("a model.onnx", nodes, {"x": (1, [4, 8])}, {"y": (1, [4, 8])})
    done = shell("stepwell-bisect 'a model.onnx' --input x=4x8xf32:-1 --load-pass-plugin './my wrong.py'")
    assert done.returncode == 1, done.stderr
    again = shell(hint(done.stdout, "reproduce with: "))
    assert again.returncode == 1, again.stderr
    assert "ReluIsNothing" in again.stdout


LAYERS = Path(__file__).parents[2] / "examples" / "plugins" / "layers_frontend" / "layers_frontend.py"


@pytest.mark.few(2)
@pytest.mark.parametrize("tool", ["run", "compile", "explore -o a.html", "reduce --once", "bisect", "tune --trials 1"])
def test_every_tool_that_compiles_loads_plugins(folder, tool):
    Path("net.layers").write_text('{"input": [2, 1], "layers": [{"weight": [[3]], "bias": [1], "activation": "relu"}]}')
    name, *options = shlex.split(tool)
    command = shlex.join([f"stepwell-{name}", "net.layers", *options])
    assert shell(command).returncode != 0
    done = shell(f"{command} {shlex.quote(f'{PLUGINS}={LAYERS}')}")
    assert done.returncode == 0 or (name == "reduce" and "does not fail" in done.stdout), done.stderr


def test_a_plugin_that_cannot_be_loaded_is_wrong_usage(model, capsys):
    assert compile.main([model, f"{PLUGINS}=absent.py"]) == 2
    assert "failed to load passes from 'absent.py': ImportError: no file" in capsys.readouterr().err


STRINGS = {"words": (TensorProto.STRING, [3])}


def test_models_of_strings_run_and_print(folder, capsys):
    nodes = [helper.make_node("StringNormalizer", ["words"], ["y"], "upper", case_change_action="UPPER")]
    save_model("words.onnx", nodes, STRINGS, {"y": (TensorProto.STRING, [3])})
    given = ["words.onnx", "--fallback=quiet", "--input=words=3xstring:hello"]
    assert run.main([*given, "--output=y.npz"]) == 0
    assert "'HELLO', 'HELLO', 'HELLO'" in capsys.readouterr().out
    assert run.main([*given, "--expect=y.npz", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["outputs"] == [{"name": "y", "type": "string", "shape": [3], "first": ["HELLO"] * 3}]
    np.savez("z.npz", y=np.array(["HELLO", "WORLD", "HELLO"]))
    assert run.main([*given, "--expect=z.npz"]) == 1
    assert "y: DIFFERS: 1 of 3 elements, first at (1,): 'HELLO', expected 'WORLD'" in capsys.readouterr().err
    assert run.main(["words.onnx", "--fallback=quiet"]) == 0  # makes up words as input
    np.save("words.npy", np.array(["a", "b", "c"]))
    assert run.main(["words.onnx", "--fallback=quiet", "--input=words=@words.npy"]) == 0
    assert "'A', 'B', 'C'" in capsys.readouterr().out


def test_sequences_are_printed_and_written(folder, capsys):
    nodes = [helper.make_node("SplitToSequence", ["x"], ["y"], "split", axis=0, keepdims=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "s", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "s.onnx")
    assert run.main(["s.onnx", "--input=x=2x3xf32:range", "--fallback=quiet", "--output=s.npz"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"y\[0\] +float32 +1x3 +0 +1 +2", printed)
    assert np.load("s.npz")["y[1]"].tolist() == [[3, 4, 5]]


def test_the_cache_lists_models_shapes_and_targets(model, capsys):
    assert compile.main([model, "--shape=x=2x8", "--quiet"]) == 0
    assert compile.main([model, "--dims=n=1:4", "--target=x86-64-v3", "--quiet"]) == 0
    assert cache.main(["list"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"model.onnx +x=2x8 +cpu +1", printed)
    assert re.search(r"model.onnx +n=1 to 4 +x86-64-v3 +1", printed)
    assert cache.main(["list", "--json"]) == 0
    programs = json.loads(capsys.readouterr().out)["programs"]
    assert {(each["model"], each["target"]) for each in programs} == {
        ("model.onnx", "cpu"),
        ("model.onnx", "x86-64-v3"),
    }


def test_an_artefact_is_inspected(model, capsys):
    targets = "--target=x86-64-v2,cuda:sm_90a"
    assert compile.main([model, "--shape=x=2x8", "--shape=x=3x8", targets, "--quiet"]) == 0
    assert inspect.main(["model.stw", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["made_by"]
    assert found["targets"] == ["x86-64-v2", "sm_90a"]
    assert [each["shapes"] for each in found["programs"]] == [{"x": [2, 8]}, {"x": [3, 8]}] * 2
    assert [each["runs_here"] for each in found["programs"]][2:] == [False, False]
    assert found["programs"][0]["kernels"][0]["nodes"] == ["exp"]
    assert found["members"]["code"] > 0
    assert found["inputs"] == [{"name": "x", "type": "float32", "shape": ["n", 8]}]
    assert inspect.main(["model.stw", "--kernels"]) == 0
    printed = capsys.readouterr().out
    assert "x=2x8" in printed
    assert "sm_90a (not this machine)" in printed
    assert "kernels of program 3:" in printed


def test_ranges_host_nodes_and_damage_are_shown(model, capsys):
    assert compile.main([model, "--dims=n=1:5", "-o", "r.stw", "--quiet"]) == 0
    assert inspect.main(["r.stw"]) == 0
    assert "n=1:5" in capsys.readouterr().out
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("RandomUniformLike", ["e"], ["y"], "where"),
    ]
    save_model("host.onnx", nodes, {"x": (1, [2, 8])}, {"y": (1, [2, 8])})
    assert compile.main(["host.onnx", "--quiet", "--fallback=quiet"]) == 0
    assert inspect.main(["host.stw", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [node["node"] for node in found["host"]] == ["where"]
    assert found["programs"][0]["piece"] is not None
    assert inspect.main(["host.stw"]) == 0
    assert "on the host:" in capsys.readouterr().out
    data = bytearray(Path("r.stw").read_bytes())
    data[len(data) // 2] ^= 1
    Path("r.stw").write_bytes(data)
    assert inspect.main(["r.stw", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "error"


def test_commands_are_listed_as_json(capsys):
    assert stepwell.main(["--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["commands"]) == set(stepwell.TOOLS)
