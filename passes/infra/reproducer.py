"""Reproducers: a module and the pipeline that fails on it, in the file format of `mlir-opt --run-reproducer`."""

from __future__ import annotations

from dataclasses import dataclass

from .pipeline import Pipeline


@dataclass(frozen=True)
class Reproducer:
    """The pipeline and settings that repeat a failure.

    Attributes:
        pipeline: pipeline that failed.
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
