"""External resources in a module's text: data appended by other tools, and the pipeline of a reproducer.

MLIR's parser ignores them when called through the bindings. Stepwell reads them from the text and prints them after
the result again, as `mlir-opt` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

AsmResources = dict[str, dict[str, str]]
"""The entries of each tool, as written in the text."""

REPRODUCER = "mlir_reproducer"
_SECTION = re.compile(r"\bexternal_resources\s*:\s*\{")
_TOKEN = re.compile(r"\s*(?:(?P<word>[\w.$-]+|\"(?:[^\"\\]|\\.)*\")|(?P<mark>[{}:,]))")
_END = "#-}"


def read_resources(text: str) -> AsmResources:
    """The external resources in the text of a module; reporting malformed ones is left to MLIR's parser."""
    begin = text.rfind("{-#")
    found = _SECTION.search(text, begin) if begin >= 0 else None
    if found is None:
        return {}
    resources: AsmResources = {}
    tool, words, position = "", [], found.end()
    while match := _TOKEN.match(text, position):
        position = match.end()
        if match["word"]:
            words.append(match["word"])
        elif match["mark"] == "{" and words and not tool:
            tool, words = words[-1], []
            resources[tool] = {}
        elif match["mark"] in ",}":
            if tool and len(words) == 2:
                resources[tool][words[0]] = words[1]
            words = []
            if match["mark"] == "}" and not tool:
                break
            if match["mark"] == "}":
                tool = ""
    return resources


def with_resources(printed: str, resources: Mapping[str, Mapping[str, str]], limit: int | None = None) -> str:
    """The text of a module followed by external resources; omits strings longer than the limit."""
    tools = []
    for tool, entries in resources.items():
        kept = [f"      {key}: {value}" for key, value in entries.items() if not _is_too_long(value, limit)]
        if kept:
            tools.append(f"    {tool}: {{\n" + ",\n".join(kept) + "\n    }")
    if not tools:
        return printed
    section = "  external_resources: {\n" + ",\n".join(tools) + "\n  }\n"
    head, mark, rest = printed.rpartition(f"\n{_END}")
    if not mark or rest.strip():
        return f"{printed.rstrip()}\n\n{{-#\n{section}{_END}\n"
    return f"{head.rstrip()}{'' if head.rstrip().endswith('{-#') else ','}\n{section}{_END}\n"


def _is_too_long(value: str, limit: int | None) -> bool:
    return limit is not None and value.startswith('"') and len(value) - 2 > limit


def reproducer_of(resources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The entries of a reproducer, with strings unquoted and unescaped; empty if there is none."""
    entries = resources.get(REPRODUCER, {})
    return {key: _unquoted(value) if value.startswith('"') else value for key, value in entries.items()}


def _unquoted(text: str) -> str:
    """Unescapes a string: MLIR writes a backslash and two hexadecimal digits, or a backslash and the character."""

    def unescape(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if len(match[1]) == 2 else match[1]

    return re.sub(r"\\([0-9A-Fa-f]{2}|.)", unescape, text[1:-1])


def quoted(text: str) -> str:
    """The text as a quoted MLIR string."""
    return '"' + text.replace("\\", "\\\\").replace('"', "\\22") + '"'
