"""Runs the documentation's examples: writes their files, executes their Python, compares the output of commands.

A block that starts with a comment `file: NAME` is written to that file. A line `$ command` in a console block is run;
the lines after it must be its output. A line `...` stands for any lines, and `...` within a line for any text.
Measured numbers (with a fraction, a unit, or counting threads), digests and column widths may differ.
Commands in README's table of questions are run too. Without PyTorch, its page and blocks that import it are not run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import llvm
import pytest

from ..forked import commands
from .shown import prints

ROOT = Path(__file__).parent.parent.parent
LONG = {
    *("aarch64", "architecture", "artefacts", "benchmarks", "bisect", "drop_in", "failures", "gpu", "kernels"),
    *("language_models", "machines", "profile", "pytorch", "quantization", "reduce", "safety", "serving"),
    *("training", "tuning", "writing-a-lowering", "writing-a-target"),
}
"""Pages whose commands take long: they compile whole models, measure, search, or start many processes."""
GUIDES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.sweep] if page.stem in LONG else [])
    for page in sorted((ROOT / "docs").glob("*.md"))
    if page.name != "README.md"
]
BLOCK = re.compile(r"^```(python|console|mlir)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"^\| .*\? \| `(stepwell-[^`]*)`", re.MULTILINE)
HAS_TORCH = importlib.util.find_spec("torch") is not None
FILE = re.compile(r"(?:#|//) file: (\S+)\n")


@pytest.mark.parametrize("guide", GUIDES)
def test_guide(guide: Path, tmp_path: Path) -> None:
    if guide.stem == "pytorch" and not HAS_TORCH:
        pytest.skip("PyTorch is not installed")
    _run_page(guide, tmp_path)


def test_readme(tmp_path: Path) -> None:
    _run_page(ROOT / "README.md", tmp_path)
    questions = TABLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(questions) > 8
    for command in questions:
        # Exit code 1 is an answer too: for example, the model does not fail.
        output = _run([shutil.which("bash") or "sh", "-c", command], tmp_path, (0, 1))
        assert "error:" not in output and "Traceback" not in output, f"{command}\n{output}"


@pytest.mark.parametrize(
    ("shown", "output", "is_same"),
    [
        ("a 1.5 ms\n", "a   21 ms\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\n", True),
        ("...\nb\n", "a\nb\nc\n", False),
        ("a b\n", "a bc\n", False),
        ("a ... c\n", "a b c\n", True),
        ("", "a\n", False),
        ("2 nodes\n", "3 nodes\n", False),
        ("crash-786d29eb4d\n", "crash-1e31d17b6d\n", True),  # a digest that begins as a number does
    ],
)
def test_what_counts_as_the_output_shown(shown, output, is_same) -> None:
    assert prints(shown, output) == is_same


def test_contributing() -> None:
    _run_page(ROOT / "CONTRIBUTING.md", ROOT)


def _run_page(page: Path, folder: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks, f"{page.name} shows nothing that can be run"
    for kind, text in blocks:
        file = FILE.match(text)
        if file is not None:
            (folder / file[1]).write_text(text[file.end() :], encoding="utf-8")
        elif kind == "python" and (HAS_TORCH or "import torch\n" not in text):
            _run(["python", "-c", text], folder)
        elif kind == "console":
            _run_console(text, folder)


def _run_console(text: str, folder: Path) -> None:
    for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        output = _run([shutil.which("bash") or "sh", "-c", line], folder)
        assert prints(expected, output), f"`{line}` does not print\n{expected}\nbut\n{output}"


def _run(command: list[str], folder: Path, codes: tuple[int, ...] = (0,)) -> str:
    forked = commands.environment()
    path = os.pathsep.join([forked["PATH"], str(Path(llvm.__file__).parent / "bin")])
    environment = {**os.environ, **forked, "PATH": path, "PYTHONPATH": str(folder) if folder != ROOT else ""}
    command = [shutil.which(command[0], path=path) or command[0], *command[1:]]
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode in codes, f"{command[-1]}\n{done.stdout}"
    return done.stdout
