"""The check of prose reports what `CONTRIBUTING.md` rules out, and accepts plain prose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from . import prose

GOOD = '''"""Number of rows."""

WHERE = 1
"""Offset of the operator, in bytes."""


def where():
    """Where: selects elements by a condition."""


class Whatever:
    """Whatsoever, So-called names and texts that go on: what, where, how many, forever, vain."""

    text = "What a string says"
'''

BAD_OPENINGS = '''"""What is shared."""


def first():
    """
    Whether it is."""


class Second:
    """A class."""

    field: int
    """So many rows."""
'''


def _check(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text, encoding="utf-8")
    return sorted(prose.findings(path.read_text(encoding="utf-8"), path.suffix == ".py"))


def test_plain_prose_passes(tmp_path: Path) -> None:
    assert _check(tmp_path / "good.py", GOOD) == []
    # Markdown may ask questions.
    assert _check(tmp_path / "good.md", "# What it does\n\nWhere it runs.\nWhat is it?\n") == []
    assert _check(tmp_path / "list.md", "| What |\n\n- Of course.\n\n```\nOf code.\n```\n") == [
        (3, "sentence opens with 'Of': start with the subject of the sentence")
    ]


def test_openings_are_found_in_every_docstring(tmp_path: Path) -> None:
    assert _check(tmp_path / "bad.py", BAD_OPENINGS) == [
        (1, "docstring opens with 'What': start with a noun phrase ('Number of ...', 'Offset of ...')"),
        (5, "docstring opens with 'Whether': write 'Returns whether ...' or 'True if ...'"),
        (13, "'So many': write the number, or 'this many'"),
        (13, "docstring opens with 'So': start with a verb in the third person ('Checks ...', 'Reports ...')"),
    ]


@pytest.mark.parametrize("word", prose.OPENINGS)
def test_every_opening_is_found(word: str, tmp_path: Path) -> None:
    [(line, message)] = _check(tmp_path / "bad.py", f'"""{word} it is."""\n')
    assert line == 1 and message.startswith(f"docstring opens with '{word}': ")


@pytest.mark.parametrize("suffix", [".py", ".md"])
@pytest.mark.parametrize("word", prose.WORDS)
def test_words_are_found_in_all_text(word: str, suffix: str, tmp_path: Path) -> None:
    text = f"\n# It is {word.capitalize()}, or\n# {word}.\n"
    assert [line for line, _ in _check(tmp_path / f"bad{suffix}", text)] == [2, 3]


@pytest.mark.parametrize("word", prose.INVERTED)
def test_inverted_sentences_and_comments_are_found(word: str, tmp_path: Path) -> None:
    message = f"opens with '{word}': start with the subject of the sentence"
    text = f"It is so. {word} that\nit is not.\n\n- One.\n- {word} two.\n"
    assert _check(tmp_path / "bad.md", text) == [(1, f"sentence {message}"), (5, f"sentence {message}")]
    assert _check(tmp_path / "bad.py", f"x = 1\n# {word} it.\n") == [(2, f"comment {message}")]


def test_words_are_found_across_lines(tmp_path: Path) -> None:
    assert _check(tmp_path / "bad.md", "It lasts for\never.\n") == [
        (1, "'for ever': write 'indefinitely' or 'without end'")
    ]


@pytest.mark.parametrize(("text", "status", "shown"), [("Fine.\n", 0, ""), ("Fine.\nIn vain.\n", 1, ":2: 'In vain': ")])
def test_command_prints_findings_and_returns_a_status(text: str, status: int, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, prose.__file__, str(path)], capture_output=True, text=True)
    assert done.returncode == status and done.stderr == ""
    assert done.stdout.startswith(f"{path}{shown}" if shown else "") and done.stdout.count("\n") == status
