"""Files that tools write: inputs and files of other kinds are never replaced, and a failure keeps the old file."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.bench import command as bench
from stepwell.runtime.devices import peaks
from stepwell.tools import bisect, compile, explore, opt, run
from stepwell.tools.flags import UsageError
from stepwell.tools.outputs import ARRAYS, ARTEFACT, IR, PAGE, PICTURE, REPORT, Outputs
from stepwell.tools.stepwell import TOOLS

MLIR = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
WRONG = """
from stepwell.dialects.stepwell.elementwise import ReluOp
from stepwell.passes.graph.patterns import algebra
from stepwell.passes.ir.rewriting import Pattern


class ReluIsNothing(Pattern[ReluOp]):
    root = ReluOp

    def rewrite(self, op):
        return op.operation.operands[0]


algebra.PATTERNS = (*algebra.PATTERNS, ReluIsNothing())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder, with a model, inputs, and files that must survive."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    curve = [(1.0, 1e10), (1e9, 1e10)]
    monkeypatch.setattr(peaks, "known", lambda threads, cache: peaks.Peaks(threads, 1e11, curve, curve))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], "exp")], "tiny", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
    Path("model.mlir").write_text(MLIR)
    np.save("x.npy", np.ones((4, 8), np.float32))
    Path("notes.json").write_text('{"schema": 1, "mine": true}')
    return tmp_path


WRITES = [
    (compile, ["-o"], []),
    (compile, ["--opt-report"], []),
    (compile, ["-o"], ["--compile-to=graph"]),
    (explore, ["-o"], []),
    (run, ["--output"], []),
    (run, ["--profile"], []),
]


@pytest.mark.parametrize(("tool", "option", "more"), WRITES)
@pytest.mark.parametrize("given", ["model.onnx", "link.onnx", "hard.onnx", "link", "notes.json", "other.onnx", "sub"])
def test_what_is_there_is_not_replaced(folder, capsys, tool, option, more, given):
    Path("link.onnx").symlink_to("model.onnx")
    Path("hard.onnx").hardlink_to("model.onnx")
    Path("link").symlink_to("notes.json")
    Path("other.onnx").write_bytes(b"\x08\x08 another model")
    Path("sub").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert tool.main(["model.onnx", f"{option[0]}={given}" if option[0] != "-o" else f"-o{given}", *more]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{tool.NAME}: error: {option[0]} {given}: ")
    assert "input" in said or "is not" in said or "this is a folder" in said
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_an_input_of_any_option_is_not_replaced(folder, capsys):
    np.savez("x.npz", y=np.exp(np.ones((4, 8), np.float32)))
    for arguments in (["--expect=x.npz", "--output=x.npz"], ["--input=x=@x.npy", "--memory=./x.npy"]):
        before = Path("x.npz").read_bytes(), Path("x.npy").read_bytes()
        assert run.main(["model.onnx", *arguments]) == 2
        assert (Path("x.npz").read_bytes(), Path("x.npy").read_bytes()) == before
    capsys.readouterr()
    assert compile.main(["model.onnx", "-o", "model.stw"]) == 0
    before = Path("model.stw").read_bytes()
    assert run.main(["model.stw", "--output=model.stw"]) == 2
    assert "is an input (model.stw)" in capsys.readouterr().err
    assert Path("model.stw").read_bytes() == before


def test_a_name_that_the_option_leaves_to_the_tool_is_checked_too(folder, capsys):
    for tool, name in ((compile, "model.stw"), (explore, "model.html")):
        Path(name).write_text("mine")
        assert tool.main(["model.onnx"]) == 2
        assert f"-o {name}: the file exists and is not" in capsys.readouterr().err
        assert Path(name).read_text() == "mine"


def test_an_optional_value_does_not_swallow_the_model(folder, capsys):
    assert compile.main(["--opt-report", "model.onnx", "-o", "out.stw"]) == 0
    assert "exp" in capsys.readouterr().out
    before = Path("model.onnx").read_bytes()
    with pytest.raises(SystemExit):
        compile.main(["--opt-report", "model.onnx", "x.npy"])
    assert Path("model.onnx").read_bytes() == before


@pytest.mark.parametrize("name", [name for name in TOOLS if name != "opt"])
def test_no_optional_value_of_any_tool_swallows_a_positional(name):
    made = importlib.import_module("stepwell.bench.command" if name == "bench" else f"stepwell.tools.{name}")._parser()
    parsers = [made]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
        probe = type(parser)(add_help=False)
        probe.add_argument("model", nargs="?")
        optional = [action for action in parser._actions if action.option_strings and action.nargs == "?"]
        for action in optional:
            probe._add_action(action)
            assert probe.parse_args([action.option_strings[0], "model.onnx"]).model == "model.onnx"
        assert all(action.nargs not in ("*", "+") for action in parser._actions if action.option_strings)


def test_own_files_are_replaced(folder, capsys):
    for _ in range(2):
        report = ["--opt-report=report.json", "--dump-phases=levels"]
        assert compile.main(["model.onnx", "-o", "a.stw", *report]) == 0
        assert compile.main(["model.onnx", "-o", "graph.mlir", "--compile-to=graph"]) == 0
        assert explore.main(["model.onnx", "-o", "page.html", "--no-assembly"]) == 0
        made = ["--output=y.npz", "--profile=p.json", "--calls=1", "--memory=memory.json"]
        assert run.main(["model.onnx", *made]) == 0
        assert run.main(["model.onnx", "--memory=memory.svg"]) == 0
    Path("new.stw").touch()  # an empty file, as mktemp creates it
    assert compile.main(["model.onnx", "-o", "new.stw"]) == 0
    assert not list(folder.glob(".*"))


def test_a_dump_does_not_replace_the_parameters_that_it_was_made_from(folder, capsys):
    assert compile.main(["model.onnx", "--dump-phases=levels"]) == 0
    assert compile.main(["levels/0-import.mlir", "--dump-phases=levels", "-o", "b.stw"]) == 2
    assert "levels/0-import.mlir: this file is an input" in capsys.readouterr().err
    Path("mine").mkdir()
    Path("mine/parameters.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    assert compile.main(["model.onnx", "--dump-phases=mine", "-o", "b.stw"]) == 2
    assert Path("mine/parameters.safetensors").read_bytes() == b"\x02\0\0\0\0\0\0\0{}"
    assert not Path("b.stw").exists()


def test_a_failure_leaves_the_old_file(folder, capsys, monkeypatch):
    assert run.main(["model.onnx", "--output=y.npz"]) == 0
    before = Path("y.npz").read_bytes()

    def fails(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device", "y.npz")

    monkeypatch.setattr(np, "savez", fails)
    assert run.main(["model.onnx", "--output=y.npz"]) == 1
    assert "y.npz: No space left on device" in capsys.readouterr().err
    assert Path("y.npz").read_bytes() == before
    assert not list(folder.glob(".y*"))


def test_devices_pipes_and_the_standard_output_are_written_to(folder, capfdbinary):
    cases = ((compile, "-o", b"PK"), (explore, "-o", b"<!doctype"), (run, "--output", b"PK"), (run, "--profile", b"{"))
    for tool, option, start in cases:
        assert tool.main(["model.onnx", option, "/dev/null"]) == 0
        capfdbinary.readouterr()
        assert tool.main(["model.onnx", option, "-"]) == 0
        printed = capfdbinary.readouterr()
        assert printed.out.startswith(start)
        assert printed.err
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert compile.main(["model.onnx", "-o", "pipe"]) == 0
        assert reader.communicate()[0].startswith(b"PK")
    assert not Path("-").exists()


def test_a_link_stays_a_link(folder):
    assert compile.main(["model.onnx", "-o", "real.stw"]) == 0
    Path("link.stw").symlink_to("real.stw")
    Path("real.stw").chmod(0o600)
    for output in (["-o", "link.stw"], ["-o", "real.stw"]):
        assert compile.main(["model.onnx", *output]) == 0
    assert Path("link.stw").is_symlink()
    Path("graph.mlir").write_text('module attributes {stepwell.phase = "graph"} {}')
    Path("link.mlir").symlink_to("graph.mlir")
    Path("graph.mlir").chmod(0o600)
    assert compile.main(["model.onnx", "--compile-to=graph", "-o", "link.mlir"]) == 0
    assert Path("link.mlir").is_symlink()
    assert "stepwell.exp" in Path("graph.mlir").read_text()
    assert Path("graph.mlir").stat().st_mode & 0o777 == 0o600


@pytest.mark.sweep
def test_a_reproducer_replaces_only_a_reproducer(folder, capsys):
    Path("wrong.py").write_text(WRONG)
    relu = MLIR.replace("stepwell.exp", "stepwell.relu")
    Path("relu.mlir").write_text(relu)
    found = ["relu.mlir", "--input=input0=4x8xf32:-1", "--load-pass-plugin=./wrong.py"]
    script = f"import sys; from stepwell.tools.bisect import main; sys.exit(main({found!r}))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "reproduce with: stepwell-bisect relu.bisect/before.mlir" in done.stdout
    assert bisect.main(["relu.bisect/before.mlir", "--reproducer=relu.bisect"]) == 2
    assert "is an input" in capsys.readouterr().err
    Path("mine").mkdir()
    Path("mine/before.mlir").write_text(MLIR)
    assert bisect.main(["model.onnx", "--reproducer=mine"]) == 2
    assert Path("mine/before.mlir").read_text() == MLIR


def test_figures_replace_only_figures(folder, capsys):
    short = ["--threads=1", "--rounds=1", "--seconds=0", "--peers="]
    before = Path("model.onnx").read_bytes()
    assert bench.main(["models", "model.onnx", *short, "-o", "model.onnx"]) == 2
    assert bench.main(["models", "model.onnx", *short, "-o", "notes.json"]) == 2
    assert bench.main(["ranges", "model.onnx", "--dims=n=1:2", "-o", "notes.json"]) == 2
    assert Path("model.onnx").read_bytes() == before
    assert Path("notes.json").read_text() == '{"schema": 1, "mine": true}'


def test_opt_may_replace_its_input_as_mlir_opt_does_but_not_by_a_failure(folder, capsys):
    assert opt.main(["model.mlir", "-o", "model.mlir", "--canonicalize"]) == 0
    assert Path("model.mlir").read_text().startswith("module {")
    before = Path("model.mlir").read_text()
    assert opt.main(["model.mlir", "-o", "model.mlir", "--one-shot-bufferize"]) == 1
    assert Path("model.mlir").read_text() == before
    reproducer = "--mlir-pass-pipeline-crash-reproducer=model.mlir"
    for passes in ("--one-shot-bufferize", "--canonicalize"):
        assert opt.main(["model.mlir", "-o", "out.mlir", passes, reproducer]) == 1
        assert Path("model.mlir").read_text() == before
    Path("old.mlir").write_text("// an earlier reproducer")
    assert opt.main(["model.mlir", "-o", "out.mlir", "--cse", reproducer.replace("model", "old")]) == 0
    assert Path("old.mlir").read_text() == "// an earlier reproducer"


@pytest.mark.parametrize("kind", [ARTEFACT, ARRAYS, IR, PAGE, PICTURE, REPORT])
def test_kinds_are_told_by_contents(tmp_path, kind):
    for contents in (b"text", b"{", b"PK\x03\x04", b"\xff" * 9000, b"[1]", b"{}"):
        path = tmp_path / "file.stw"
        path.write_bytes(contents)
        with pytest.raises(UsageError, match=f"is not {kind.name.partition(' (')[0]}"):
            Outputs().claim("-o", path, kind)


def test_two_options_do_not_write_one_file(tmp_path):
    outputs = Outputs()
    outputs.claim("--output", tmp_path / "a", ARRAYS)
    with pytest.raises(UsageError, match="--output names the same file"):
        outputs.claim("--profile", tmp_path / "b" / ".." / "a", REPORT)
