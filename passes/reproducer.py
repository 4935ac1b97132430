"""Reproducers: a module and the pipeline that fails on it, in the file format of `mlir-opt --run-reproducer`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .options import PipelineError
from .pipeline import Pipeline

# MLIR's parser knows only dialects' resources and says so; the reproducer is read from the text instead.
PARSER_WARNING = "ignoring unknown external resources for 'mlir_reproducer'"

_SECTION = re.compile(r"\bmlir_reproducer\s*:\s*\{(?P<body>(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*)\}")
_ENTRY = re.compile(r"(\w+)\s*:\s*(\"(?:[^\"\\]|\\.)*\"|\w+)")


@dataclass(frozen=True)
class Reproducer:
    """How to repeat a failure.

    Attributes:
        pipeline: what failed.
        disable_threading: whether it ran on one thread.
        verify_each: whether the IR was verified after every pass.
    """

    pipeline: Pipeline
    disable_threading: bool = False
    verify_each: bool = True

    def print(self, module_text: str) -> str:
        """The contents of a reproducer file for the module."""
        pipeline = str(self.pipeline).replace("\\", "\\\\").replace('"', "\\22")
        return (
            f"{module_text.rstrip()}\n\n"
            "{-#\n"
            "  external_resources: {\n"
            "    mlir_reproducer: {\n"
            f'      pipeline: "{pipeline}",\n'
            f"      disable_threading: {str(self.disable_threading).lower()},\n"
            f"      verify_each: {str(self.verify_each).lower()}\n"
            "    }\n"
            "  }\n"
            "#-}\n"
        )


def read_reproducer(text: str) -> Reproducer:
    """Finds the reproducer in the text of a module.

    Raises:
        PipelineError: there is none, or its pipeline is wrong.
    """
    section = _SECTION.search(text)
    entries = dict(_ENTRY.findall(section["body"])) if section else {}
    if "pipeline" not in entries:
        raise PipelineError("the input holds no 'mlir_reproducer' with a pipeline")
    pipeline = re.sub(r"\\([0-9A-Fa-f]{2}|.)", _unescape, entries["pipeline"][1:-1])
    return Reproducer(
        Pipeline.parse(pipeline),
        entries.get("disable_threading") == "true",
        entries.get("verify_each", "true") == "true",
    )


def _unescape(match: re.Match[str]) -> str:
    """MLIR escapes a character by its two hexadecimal digits or, if it is a backslash or a quote, by a backslash."""
    return chr(int(match[1], 16)) if len(match[1]) == 2 else match[1]
