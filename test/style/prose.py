"""Checks the prose of tracked Python and Markdown files: openings of docstrings, comments and sentences, and words.

Usage: prose.py [FILE...], all tracked files by default. Prints a line `path:line: message` per finding; the exit status
is 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# Folders with files of others, with data, or with samples of what this check finds.
EXCLUDED = {"assets", "vendor", "data", "style"}

NOUN = "start with a noun phrase ('Number of ...', 'Offset of ...')"
SUBJECT = "start with the subject of the sentence"
VERB = "start with a verb in the third person ('Checks ...', 'Reports ...')"
OPENINGS = {
    **dict.fromkeys(("What", "Which", "Where", "Of", "How", "Who", "Whose"), NOUN),
    **dict.fromkeys(("So", "That", "Sees", "Says", "Tells"), VERB),
    "Whether": "write 'Returns whether ...' or 'True if ...'",
}
WORDS = {
    "nobody": "'no', 'none' or a passive",
    "somebody": "the caller, the user or the process that is meant",
    "anybody": "the caller, the user or the process that is meant",
    "whoever": "the caller, the user or the process that is meant",
    "so many": "the number, or 'this many'",
    "for ever": "'indefinitely' or 'without end'",
    "exacter": "'more exact' or 'more precise'",
    "in vain": "'without effect', or the result",
}
# Openings of sentences in Markdown, unless they are questions, and of comments in Python.
INVERTED = ("Of", "What", "Which", "Whose", "Whom")
# An operator's name may open a docstring: `Where: selects elements by a condition.`
_OPENING = re.compile(rf"\s*({'|'.join(OPENINGS)})\b(?!:)")
_INVERTED = re.compile(rf"(?:^|(?<=[.!:]\s))({'|'.join(INVERTED)})\s[^.!?]*[.!]")
_COMMENT = re.compile(rf"^[ ]*# ({'|'.join(INVERTED)})\s[^?\n]*$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_PARAGRAPH = re.compile(r"^(?![#|\s>])(?:[-*] )?(.+(?:\n(?!\s*[-*#|] ).+)*)", re.MULTILINE)
_WORD = re.compile(r"\b(" + "|".join(WORDS).replace(" ", r"\s+") + r")\b", re.IGNORECASE)


def findings(text: str, is_python: bool) -> Iterator[tuple[int, str]]:
    """Yields line numbers, from 1, and messages."""
    for node in ast.walk(ast.parse(text)) if is_python else ():
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))) if found := _OPENING.match(docstring):
                yield node.lineno, f"docstring opens with {found[1]!r}: {OPENINGS[found[1]]}"
    if is_python:
        for found in _COMMENT.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, f"comment opens with '{found[1]}': {SUBJECT}"
    else:
        yield from _inverted(_CODE.sub(lambda block: "\n" * block[0].count("\n"), text))
    for found in _WORD.finditer(text):
        word = " ".join(found[0].split())
        yield text.count("\n", 0, found.start()) + 1, f"{word!r}: write {WORDS[word.lower()]}"


def _inverted(text: str) -> Iterator[tuple[int, str]]:
    """Yields the sentences of paragraphs that do not start with their subject."""
    for paragraph in _PARAGRAPH.finditer(text):
        for found in _INVERTED.finditer(paragraph[1]):
            line = text.count("\n", 0, paragraph.start(1) + found.start()) + 1
            yield line, f"sentence opens with '{found[1]}': {SUBJECT}"


def tracked() -> list[Path]:
    """Returns the project's own Python and Markdown files."""
    command = ["git", "ls-files", "-z", "--", "*.py", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    own = (ROOT / name for name in names if EXCLUDED.isdisjoint(Path(name).parts))
    return [path for path in own if path.exists()]


def main(arguments: list[str]) -> int:
    """Prints the findings in the named files, or in all tracked ones, and returns the exit status."""
    found = False
    for path in [Path(name) for name in arguments] or tracked():
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for line, message in sorted(findings(path.read_text(encoding="utf-8"), path.suffix == ".py")):
            found = True
            print(f"{shown}:{line}: {message}")
    return int(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
