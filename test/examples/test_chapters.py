"""The chapters of the ladder run, and print the output that they show."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from ..docs.shown import prints
from ..forked import commands

ROOT = Path(__file__).parent.parent.parent
CHAPTERS = sorted((ROOT / "examples").glob("ch*.py"))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chapters = _load(ROOT / "docs" / "extensions" / "chapters.py")


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter(chapter: Path, tmp_path: Path) -> None:
    forked = commands.environment()
    command = [str(shutil.which("python", path=forked["PATH"])), str(chapter)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **forked}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = chapters.output(chapter.read_text(encoding="utf-8"))
    assert prints(shown, done.stdout), f"{chapter.name} prints\n{done.stdout}"


def test_the_index_lists_the_chapters_in_order() -> None:
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[\d: .*\]\((ch.*\.py)\)", index, re.MULTILINE) == [path.name for path in CHAPTERS]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_links_of_a_chapter_lead_somewhere(chapter: Path) -> None:
    page = chapters.page(chapter.read_text(encoding="utf-8"))
    assert page.startswith(f"# Chapter {chapter.stem[2]}: ")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", page) if "://" not in link]
    assert [link for link in links if not (chapter.parent / link.partition("#")[0]).exists()] == []
