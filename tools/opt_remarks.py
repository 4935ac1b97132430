"""Remarks of passes in `stepwell-opt`, with the flags and in the formats of `mlir-opt`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ..runtime.remarks import ANALYSIS, MISSED, PASSED, Remark, to_yaml
from .flags import CommandLine, UsageError

_FILTERS = {PASSED: "remarks-filter-passed", MISSED: "remarks-filter-missed", ANALYSIS: "remarks-filter-analyse"}
_ALL = "remarks-filter"
_DEFAULT_FILE = "mlir-remarks.yaml"


def wants_remarks(line: CommandLine) -> bool:
    """Returns whether the command line selects any remarks."""
    return any(line.get(flag) for flag in (_ALL, *_FILTERS.values()))


class RemarkWriter:
    """Writes the selected remarks: as diagnostics to the standard error stream, or as YAML to a file.

    Args:
        program: the name of the tool, for messages.
        line: the parsed command line.

    Raises:
        UsageError: a filter is no regular expression.
    """

    def __init__(self, program: str, line: CommandLine) -> None:
        self._filters = {}
        for kind, flag in _FILTERS.items():
            texts = [text for text in (line.get(_ALL), line.get(flag)) if text]
            try:
                self._filters[kind] = [re.compile(text) for text in texts]
            except re.error as error:
                raise UsageError(f"{program}: --{_ALL} and --{flag} take regular expressions: {error}") from error
        is_yaml = line.get("remark-format") == "yaml"
        self._path = Path(line.get("remarks-output-file") or _DEFAULT_FILE) if is_yaml else None
        self._has_written = False

    def write(self, remarks: Sequence[Remark]) -> None:
        """Writes the selected ones of some remarks, after those written before."""
        chosen = [item for item in remarks if any(each.search(item.pass_name) for each in self._filters[item.kind])]
        if self._path is None:
            print("".join(map(_diagnostic, chosen)), end="", file=sys.stderr)
            return
        with open(self._path, "a" if self._has_written else "w", encoding="utf-8") as file:
            file.write(to_yaml(chosen))
        self._has_written = True


def _diagnostic(remark: Remark) -> str:
    """Returns a remark as a line of `mlir-opt`, at the named location of its first node."""
    place = f'loc("{remark.nodes[0]}")' if remark.nodes else "<unknown>:0"
    facts = [("Remark", remark.message), *((name, value) for name, value in remark.arguments)]
    text = ", ".join(f"{name}={_quoted(value)}" for name, value in facts)
    return f"{place}: remark: [{remark.kind.capitalize()}] {remark.rule} | Category:{remark.pass_name} | {text}\n"


def _quoted(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f'"{text}"' if re.search(r"[\s,]", text) or not text else text
