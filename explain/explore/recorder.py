"""Instrumentation that records the IR after every pass of a compile."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from mlir import ir

from ...driver import route
from ...passes.infra.elements import Nested
from ...passes.infra.instrumentation import Instrumentation, PassStep, title_of
from ...passes.infra.pipeline import Pipeline
from ...support.errors import StepwellError
from .graph import calls_of, graph_of
from .texts import Texts


@dataclass
class ModuleRecord:
    """The record of one module: a model, or a subgraph that is compiled separately.

    Attributes:
        texts: all texts of its functions.
        graph: the ops of the initial graph.
        first: the chunks before the first pass.
        steps: the passes in order, with the changes of each.
        calls: the calls of kernels, with the nodes that they compute.
        renamed: final names of kernels, by their initial names.
        assembly: the chunk of machine code of each function, by its symbol.
        failure: the error that ended the compile.
    """

    texts: Texts = field(default_factory=Texts)
    graph: dict[str, Any] = field(default_factory=dict)
    first: list[int] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    assembly: dict[str, int] = field(default_factory=dict)
    failure: dict[str, Any] | None = None


class Stopped(StepwellError):
    """Raised to stop a compile before a known crash; the message describes the crash."""


@dataclass(frozen=True)
class CrashSite:
    """The point at which a previous attempt of a compile crashed.

    Attributes:
        events: number of begins and ends of passes before the crash.
        message: description of the crash.
    """

    events: int
    message: str


class PassRecorder(Instrumentation):
    """Records every pass of every module that is compiled with it.

    Args:
        finished: called with a piece and its module after the last pass of a compile.
        note: called at each begin and end of a pass with their number so far.
        crash: where to stop, before a known crash; None if none is known.
        target: the name of the target.
    """

    def __init__(
        self,
        finished: Callable[[ModuleRecord, ir.Operation], None] = lambda piece, module: None,
        note: Callable[[str], None] = lambda text: None,
        crash: CrashSite | None = None,
        target: str = "cpu",
    ) -> None:
        self.pieces: list[ModuleRecord] = []
        self._finished, self._note, self._crash, self._target = finished, note, crash, target
        self._last_pass = list(_passes(route.phases_of(target)[-1].pipeline(target)))[-1]
        self._events = 0
        self._state: list[int] = []
        self._phase = 0
        self._nesting = 0
        self._open: dict[tuple[str, int], dict[str, Any]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._latest: dict[str, int] = {}
        self._started = 0.0

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Starts a piece for a new module, unless `after_phase` has."""
        if not self.pieces or self.pieces[-1].failure is not None:
            self._begin(_root(op))
        piece = self.pieces[-1]
        if piece.calls and not piece.renamed and op.parent is None:
            now = calls_of(op, piece.texts)
            piece.renamed = {old["kernel"]: new["kernel"] for old, new in zip(piece.calls, now, strict=False)}
        if self._reaches_crash():
            self.after_pass_failed(step, op)
            self._stop()
        self._started = time.perf_counter()

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Records the changes of the pass."""
        seconds = time.perf_counter() - self._started
        self._record(step, op, seconds)
        if self._reaches_crash():
            self.pieces[-1].failure = {"pass": "", "phase": "object" if step.name == self._last_pass else ""}
            self._stop()

    def after_phase(self, phase: str, op: ir.Operation) -> None:
        """Starts a piece for each module, and records its kernels and its machine code."""
        if phase == "import":
            self._begin(op)
        elif phase == "kernels":
            self.pieces[-1].calls = calls_of(op, self.pieces[-1].texts)
        elif phase == route.last(self._target):
            self._finished(self.pieces[-1], op)

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        """Records the IR that the failed pass has left."""
        entry = self._record(step, op, time.perf_counter() - self._started)
        while self._nesting:
            self.after_nested(Nested("any", ()))
        entry["failed"] = True
        self.pieces[-1].failure = {"pass": step.name, "phase": entry["phase"]}

    def before_nested(self, nested: Nested) -> None:
        """Groups passes on many functions, so that each pass is one step and not one for each function."""
        self._nesting += 1
        if self._nesting == 1:
            self._open, self._seen, self._latest = {}, {}, {}

    def after_nested(self, nested: Nested) -> None:
        """Ends the grouping."""
        self._nesting -= 1
        if self._nesting:
            return
        for entry in self._open.values():
            changed = entry.pop("changed")
            after = [changed.get(chunk, chunk) for chunk in self._state]
            if after != self._state:
                entry["state"] = self._state = after

    def _reaches_crash(self) -> bool:
        self._events += 1
        self._note(str(self._events))
        return self._crash is not None and self._events == self._crash.events

    def _stop(self) -> NoReturn:
        assert self._crash is not None
        raise Stopped(self._crash.message)

    def _begin(self, root: ir.Operation) -> None:
        piece = ModuleRecord()
        piece.graph = graph_of(root, piece.texts)
        piece.calls = calls_of(root, piece.texts)
        piece.first = self._state = piece.texts.of_module(root)
        self.pieces.append(piece)
        self._phase = 0

    def _record(self, step: PassStep, op: ir.Operation, seconds: float) -> dict[str, Any]:
        piece, texts = self.pieces[-1], self.pieces[-1].texts
        entry = self._entry(step, op, piece)
        entry["seconds"] = round(entry["seconds"] + seconds, 6)
        if self._nesting and _is_function(op):
            chunk = texts.of_function(op)
            symbol = texts.chunks[chunk]["symbol"]
            previous = self._latest.get(symbol)
            if previous is None:
                previous = next((each for each in self._state if texts.chunks[each]["symbol"] == symbol), chunk)
            entry["changed"][previous] = self._latest[symbol] = chunk
            return entry
        after = texts.of_module(_root(op))
        if after != self._state:
            entry["state"] = self._state = after
        return entry

    def _entry(self, step: PassStep, op: ir.Operation, piece: ModuleRecord) -> dict[str, Any]:
        names = _names(self._target)
        # The first phase, from the current one on, that has a pass of that name.
        later = (index for index in range(self._phase, len(names)) if step.name in names[index])
        self._phase = next(later, self._phase)
        made = {
            "phase": route.names(self._target)[self._phase],
            "pass": step.name,
            "title": title_of(step),
            "seconds": 0.0,
            "ops": 1,
        }
        if not self._nesting:
            piece.steps.append(made)
            return made
        made["changed"] = {}
        symbol = str(op.attributes["sym_name"]) if "sym_name" in op.attributes else ""
        turn = self._seen[symbol, step.name] = self._seen.get((symbol, step.name), -1) + 1
        entry = self._open.setdefault((step.name, turn), made)
        if entry is made:
            piece.steps.append(made)
        else:
            entry["ops"] += 1
        return entry


@functools.cache
def _names(target: str) -> tuple[frozenset[str], ...]:
    """Returns the names of the passes of each phase."""
    return tuple(frozenset(_passes(phase.pipeline(target))) for phase in route.phases_of(target))


def _passes(pipeline: Pipeline | Nested) -> list[str]:
    found: list[str] = []
    for element in pipeline.elements:
        found += _passes(element) if isinstance(element, Nested) else [element.name]
    return found


def _is_function(op: ir.Operation) -> bool:
    """Returns whether an op has a name and is directly inside the outermost module."""
    return op.parent is not None and op.parent.operation.parent is None and "sym_name" in op.attributes


def _root(op: ir.Operation) -> ir.Operation:
    while op.parent is not None:
        op = op.parent.operation
    return op
