"""Watches every pipeline that runs below, whoever started it: for what must know how far a compile has come.

A `Recorder` keeps the module as it was before the pass at hand. A compile that has failed is done once more under one;
a compile that succeeds pays nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from mlir import ir

from . import debug
from .failure import current_phase
from .functions import LIBRARY, kernels_in
from .instrumentation import Instrumentation, Step
from .locations import names_in
from .pipeline import Nested, Pipeline
from .reproducer import Reproducer
from .rewriting import walk

MODULE, STEP = "failing.mlir", "step.json"
_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


class Recorder(Instrumentation):
    """Keeps the module before each pass.

    Args:
        folder: where it is written before the pass runs, so that it is there whatever the pass does; None to keep it in
            memory.
        note: told each pass.
    """

    def __init__(self, folder: Path | None = None, note: Callable[[str], None] = lambda text: None) -> None:
        self._folder, self._note = folder, note
        self._anchors: list[str] = []
        self.snapshot: ir.Operation | None = None
        self.pipeline: Pipeline | None = None

    def before_nested(self, nested: Nested) -> None:
        """Remembers where passes are about to run."""
        self._anchors.append(nested.anchor)

    def after_nested(self, nested: Nested) -> None:
        """Back to the op around."""
        self._anchors.pop()

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        """Keeps the whole module."""
        root = op
        while root.parent is not None:
            root = root.parent.operation
        anchors = [root.name, *self._anchors] if root != op or not self._anchors else self._anchors
        self.pipeline = _nested(step, anchors)
        if self._folder is None:
            self.snapshot = root.clone()
            return
        self._note(step.name)
        (self._folder / MODULE).write_text(reproducer_text(root, self.pipeline), encoding="utf-8")
        record = {
            "pass": step.name,
            "pipeline": str(self.pipeline),
            "phase": current_phase(),
            "kernel": kernel_of(root),
            "names": names_of(root),
        }
        (self._folder / STEP).write_text(json.dumps(record), encoding="utf-8")


def _nested(step: Step, anchors: Sequence[str]) -> Pipeline:
    pipeline = Pipeline((step,), anchors[-1])
    for anchor in reversed(anchors[:-1]):
        pipeline = Pipeline((Nested(pipeline.anchor, pipeline.elements),), anchor)
    return pipeline


def reproducer_text(root: ir.Operation, pipeline: Pipeline) -> str:
    """A module as a reproducer of `mlir-opt`: with the locations that name the model's nodes."""
    return Reproducer(pipeline, disable_threading=True).print(str(root.get_asm(enable_debug_info=True)))


def kernel_of(root: ir.Operation) -> str:
    """The symbol of the kernel that a library holds; "" where the module holds several, or a program."""
    kernels = kernels_in(root)
    if LIBRARY not in root.attributes or len(kernels) != 1:
        return ""
    return ir.StringAttr(kernels[0].attributes["sym_name"]).value


def names_of(root: ir.Operation) -> list[str]:
    """The nodes of the model that the only kernel of a library stands for, the dominant one first; else none."""
    if not kernel_of(root):
        return []
    places = [*kernels_in(root), *walk(root)]
    return list(dict.fromkeys(name for op in places for name in names_in(op.location)))


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Everything that compiles in the block is watched, and checked after every pass."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def is_recording() -> bool:
    """Whether a compile is being done again, to see how it fails."""
    return _recorder.get() is not None


def watchers() -> tuple[Instrumentation, ...]:
    """What watches all pipelines that start here."""
    recorder = _recorder.get()
    return debug.watchers() if recorder is None else (recorder,)
