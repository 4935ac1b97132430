"""Records how far a compile got.

A `FailureRecorder` keeps the module as it was before the current pass. A compile that failed runs once more under a
recorder; a compile that succeeds pays nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mlir import ir

from ..dialects import discardable
from ..passes.infra.elements import Nested
from ..passes.infra.instrumentation import Instrumentation, PassStep
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.reproducer import Reproducer
from ..passes.ir.functions import kernels_in
from ..passes.ir.locations import names_in
from ..passes.ir.rewriting import walk

MODULE, STEP = "failing.mlir", "step.json"


class FailureRecorder(Instrumentation):
    """Keeps the module before each pass.

    Args:
        folder: folder to write the module to before each pass, so that it survives a crash; None to keep it in memory.

    Attributes:
        phase: the phase that is in progress.
        snapshot: the module before the last pass; None if it is written to the folder.
        pipeline: the last pass, on the module.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.phase = ""
        self._anchors: list[str] = []
        self.snapshot: ir.Operation | None = None
        self.pipeline: Pipeline | None = None

    def before_nested(self, nested: Nested) -> None:
        """Pushes the anchor of the passes about to run."""
        self._anchors.append(nested.anchor)

    def after_nested(self, nested: Nested) -> None:
        """Pops the anchor."""
        self._anchors.pop()

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Stores the whole module."""
        root = op
        while root.parent is not None:
            root = root.parent.operation
        anchors = [root.name, *self._anchors] if root != op or not self._anchors else self._anchors
        self.pipeline = _nested(step, anchors)
        if self._folder is None:
            self.snapshot = root.clone()
            return
        (self._folder / MODULE).write_text(reproducer_text(root, self.pipeline), encoding="utf-8")
        record = {
            "pass": step.name,
            "pipeline": str(self.pipeline),
            "phase": self.phase,
            "kernel": kernel_of(root),
            "names": names_of(root),
        }
        (self._folder / STEP).write_text(json.dumps(record), encoding="utf-8")


def _nested(step: PassStep, anchors: Sequence[str]) -> Pipeline:
    pipeline = Pipeline((step,), anchors[-1])
    for anchor in reversed(anchors[:-1]):
        pipeline = Pipeline((Nested(pipeline.anchor, pipeline.elements),), anchor)
    return pipeline


def reproducer_text(root: ir.Operation, pipeline: Pipeline) -> str:
    """A module as a reproducer of `mlir-opt`, with the locations that name the model's nodes."""
    return Reproducer(pipeline, disable_threading=True).print(str(root.get_asm(enable_debug_info=True)))


def kernel_of(root: ir.Operation) -> str:
    """The symbol of the only kernel in a library; "" for a program, or a library with several kernels."""
    kernels = kernels_in(root)
    if not discardable.LIBRARY.is_on(root) or len(kernels) != 1:
        return ""
    return ir.StringAttr(kernels[0].attributes["sym_name"]).value


def names_of(root: ir.Operation) -> list[str]:
    """The model's nodes that the only kernel of a library stands for, the dominant one first; otherwise []."""
    if not kernel_of(root):
        return []
    places = [*kernels_in(root), *walk(root)]
    return list(dict.fromkeys(name for op in places for name in names_in(op.location)))


class _Process:
    """The folder in which every compile of this process is recorded; None in all but a child of a supervisor."""

    folder: Path | None = None


def record_process(folder: Path) -> None:
    """Records every compile of this process from now on in a folder."""
    _Process.folder = folder


def process_recorder() -> FailureRecorder | None:
    """A recorder for a compile of this process; None if its compiles are not recorded."""
    return None if _Process.folder is None else FailureRecorder(_Process.folder)
