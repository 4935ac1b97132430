"""`stepwell-tune`: a search, its files, and the questions about its trials."""

from __future__ import annotations

import json

import pytest
from stepwell.tools import compile as compile_tool
from stepwell.tools import run as run_tool
from stepwell.tools import tune

from ..tuning import graphs

SHORT = ["--trials", "2", "--turns", "6", "--threads", "1", "--searcher", "random", "--database", "trials.sqlite"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a model."""
    monkeypatch.chdir(tmp_path)
    graphs.product(tmp_path / "model.onnx")
    return tmp_path


def test_a_search_and_questions_about_it(folder, capsys) -> None:
    assert run_tool.main(["model.onnx", "--profile", "calls.json", "--calls", "3", "--quiet"]) == 0
    files = ["-o", "model.tuning.json", "--report", "model.html", "--profile", "calls.json"]
    assert tune.main(["model.onnx", *SHORT, *files, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["trials"] == 2 and record["gain"] >= 1.0 and record["threads"] == 1
    assert {"product"} <= {node for kernel in record["kernels"] for node in kernel["nodes"]}
    assert "Written by stepwell-tune" in (folder / "model.html").read_text()
    assert tune.main(["list", "--database", "trials.sqlite", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["kernels"]
    assert sum(item["trials"] for item in listed) >= 2
    name = listed[0]["kernel"]
    for action in ("show", "why"):
        assert tune.main([action, name[:12], "--database", "trials.sqlite"]) == 0
        assert tune.main([action, name, "--database", "trials.sqlite", "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["kernel"] == name
    assert tune.main(["export", "all.tuning.json", "--database", "trials.sqlite"]) == 0
    assert tune.main(["merge", "trials.sqlite", "--database", "other.sqlite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["trials"] >= 2
    assert tune.main(["prune", "--database", "other.sqlite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 0
    assert compile_tool.main(["model.onnx", "--tuning", "model.tuning.json", "-o", "model.stw"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.onnx", "--trials", "1"], 1, "missing.onnx"),
        (["model.onnx", "--budget", "soon"], 2, "'soon' is not a time"),
        (["model.onnx", "--trials", "0"], 2, "'0' is not a positive number"),
        (["model.onnx", "--report", "page.txt", *SHORT], 2, "name a file with the ending .html"),
        (["model.onnx", "--profile", "model.onnx", *SHORT], 1, "not a profile of stepwell-run"),
        (
            ["model.onnx", "--target", "cuda:sm_80", "--workers", "tcp://127.0.0.1:1", *SHORT],
            1,
            "workers measure code for CPUs only",
        ),
        (["model.onnx", "-o", "model.onnx", *SHORT], 2, "model.onnx"),
        (["list", "--database", "missing.sqlite"], 1, "there is no database missing.sqlite"),
        ([], 2, "required: ACTION"),
    ],
)
def test_errors_are_one_line(arguments, code, message, capsys) -> None:
    try:
        found = tune.main(arguments)
    except SystemExit as error:
        found = error.code
    said = capsys.readouterr().err
    assert found == code and message in said and "Traceback" not in said


def test_an_unknown_kernel_is_named(capsys) -> None:
    tune.Database("trials.sqlite")
    assert tune.main(["why", "nothing", "--database", "trials.sqlite"]) == 1
    assert "there are no trials of a kernel 'nothing'" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer(capsys) -> None:
    pytest.importorskip("distributed", reason="the package distributed is not installed")
    assert tune.main(["model.onnx", *SHORT, "--workers", "nowhere"]) == 1
    assert "no scheduler answers at nowhere: start one by 'dask scheduler'" in capsys.readouterr().err


@pytest.mark.sweep
def test_a_refit_reads_the_trials_of_models(folder, capsys) -> None:
    assert tune.main(["model.onnx", *SHORT]) == 0
    capsys.readouterr()
    assert tune.main(["refit", "model.onnx", "--database", "trials.sqlite"]) == 1
    assert "kernels with 4 trials or more, but a refit needs 4: tune for longer" in capsys.readouterr().err
    assert tune.main(["refit", "model.onnx", "--database", "trials.sqlite", "--target", "x86-64-v3"]) == 2
    assert "only figures of this machine are fitted" in capsys.readouterr().err
