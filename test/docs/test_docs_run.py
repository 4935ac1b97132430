"""Runs what the documentation shows: files are written, Python is executed, commands print what they are said to print.

A block that starts with a comment `file: NAME` is written to that file. A line `$ command` in a console block is run;
the lines after it must appear in its output, in this order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import llvm
import pytest

ROOT = Path(__file__).parent.parent.parent
GUIDES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|console|mlir)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:#|//) file: (\S+)\n")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_guide(guide: Path, tmp_path: Path) -> None:
    _run_page(guide, tmp_path)


def test_readme(tmp_path: Path) -> None:
    _run_page(ROOT / "README.md", tmp_path)


def test_contributing() -> None:
    _run_page(ROOT / "CONTRIBUTING.md", ROOT)


def _run_page(page: Path, folder: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks, f"{page.name} shows nothing that can be run"
    for kind, text in blocks:
        file = FILE.match(text)
        if file is not None:
            (folder / file[1]).write_text(text[file.end() :], encoding="utf-8")
        elif kind == "python":
            _run([sys.executable, "-c", text], folder)
        elif kind == "console":
            _run_console(text, folder)


def _run_console(text: str, folder: Path) -> None:
    for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        output = _run([shutil.which("bash") or "sh", "-c", line], folder)
        position = 0
        for wanted in expected.splitlines():
            position = output.find(wanted, position)
            assert position >= 0, f"`{line}` does not print '{wanted}', but:\n{output}"
            position += len(wanted)


def _run(command: list[str], folder: Path) -> str:
    folders = [str(Path(sys.executable).parent), str(Path(llvm.__file__).parent / "bin"), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "PYTHONPATH": str(folder) if folder != ROOT else ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}"
    return done.stdout
