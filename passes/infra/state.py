"""The state of one compile, which every pass receives beside the module.

    def run(self, op: ir.Operation, state: CompileState) -> None:
        ...
        state.missed("Fuse", names_in(reader.location), "the reader is larger than the kernel")

Nothing of a compile is kept in global variables: two compiles in two threads have two states.
`driver/state.py` makes the state for a target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ...machines.families import FAMILIES
from ...machines.machine import Machine
from ...runtime.program import Shape
from ...runtime.progress.progress import CompileReporter
from ...runtime.remarks import ANALYSIS, MISSED, PASSED, Remark, RemarkValue
from .bindings import ir
from .failure import CompileError
from .progress_note import set_note
from .tuning import Tuning
from .upstream import PreparedPipelines

DEFAULT_TARGET = "x86-64-v4"
"""The target of passes that run alone."""


class Watcher(Protocol):
    """Follows every pass; see `Instrumentation`."""

    def before_nested(self, nested: Any) -> None: ...
    def after_nested(self, nested: Any) -> None: ...
    def before_pass(self, step: Any, op: ir.Operation) -> None: ...
    def after_pass(self, step: Any, op: ir.Operation) -> None: ...
    def after_pass_failed(self, step: Any, op: ir.Operation) -> None: ...


class Recorder(Watcher, Protocol):
    """Instrumentation of a compile that is repeated after a failure; see `FailureRecorder`."""

    phase: str


class AddedPass(Protocol):
    """A pass of a caller; see `At`."""

    @property
    def phase(self) -> str:
        """The phase whose passes it follows."""
        ...

    @property
    def step(self) -> Any:
        """The pass, or the text of a pipeline."""
        ...


@dataclass
class RewriteLimit:
    """The maximum number of rewrites of all patterns together, and a log of those done.

    Bisection over `most` finds a wrong rewrite, and with it the pattern.

    Attributes:
        most: maximum number of rewrites.
        done: the pattern of each rewrite, and the location of the op that it replaced.
    """

    most: int
    done: list[tuple[str, ir.Location]] = field(default_factory=list)


@dataclass
class CompileState:
    """Data that the passes of one compile share, besides the module.

    Passes on kernels may depend only on the target and its machine, because no other field is part of the names of
    kernels in the cache. The schedules that `tuning` gives them are part of their keys.

    Attributes:
        target: the name of the target.
        machine: the description of its machine.
        shapes: the shapes that the phase `graph` binds the inputs of @main to; None for those of the module.
        without: the names of passes to leave out before the phase `graph`.
        added: passes of the caller, each run after the passes of its phase.
        instrumentation: called before and after every pass of the route.
        reporter: receives the progress of the compile; None if nothing is reported.
        parameters: arrays that the module names; passes add and replace entries but never modify an array. None for a
            module without the contents of its parameters.
        evaluated: the model's nodes that are computed at compile time, in `@init`.
        remarks: the remarks of passes, in order.
        phase: the phase that is in progress; "" outside of one.
        pass_name: the pass that is running, or ran last.
        tuning: schedules of kernels and decisions that replace the default ones; None for no others.
        sites: receives the places where passes on the graph decide, by name and nodes, for a tuner; None if there is
            none.
        low_rank: largest relative error of weights that factors of lower rank replace; 0 to keep all weights.
        batch_invariant: whether rows of products with weights of few bits are rounded alike, however many there are.
        recorder: follows every pass if a failed compile is being repeated; None otherwise.
        limit: limits the rewrites of patterns; None for no limit.
        prepared: upstream pipelines of the last context; passes read `pipelines`.
    """

    parameters: dict[str, np.ndarray] | None = None
    target: str = DEFAULT_TARGET
    machine: Machine = FAMILIES[DEFAULT_TARGET]
    shapes: Sequence[Shape] | None = None
    without: Collection[str] = ()
    added: Sequence[AddedPass] = ()
    instrumentation: Sequence[Watcher] = ()
    reporter: CompileReporter | None = None
    evaluated: set[str] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)
    phase: str = ""
    pass_name: str = ""
    tuning: Tuning | None = None
    sites: dict[tuple[str, tuple[str, ...]], Any] | None = None
    low_rank: float = 0.0
    batch_invariant: bool = False
    recorder: Recorder | None = None
    limit: RewriteLimit | None = None
    prepared: PreparedPipelines | None = None

    def passed(self, rule: str, nodes: Sequence[str], message: str, **arguments: RemarkValue) -> None:
        """Adds the remark that the current pass applied a rule to some nodes of the model; see `Remark`."""
        self._add(PASSED, rule, nodes, message, arguments)

    def missed(self, rule: str, nodes: Sequence[str], reason: str, **arguments: RemarkValue) -> None:
        """Adds the remark that the current pass considered a rule, and why it did not apply it."""
        self._add(MISSED, rule, nodes, reason, arguments)

    def found(self, rule: str, nodes: Sequence[str], message: str, **arguments: RemarkValue) -> None:
        """Adds a remark on what the current pass found out."""
        self._add(ANALYSIS, rule, nodes, message, arguments)

    def _add(self, kind: str, rule: str, nodes: Sequence[str], message: str, arguments: dict[str, RemarkValue]) -> None:
        self.remarks.append(Remark(kind, self.pass_name, rule, tuple(nodes), message, tuple(arguments.items())))

    @property
    def is_recorded(self) -> bool:
        """True if a failed compile is being repeated under a recorder."""
        return self.recorder is not None

    @property
    def pipelines(self) -> PreparedPipelines:
        """Upstream pipelines in the current context, which are prepared once."""
        if self.prepared is None or self.prepared.context != ir.Context.current:
            self.prepared = PreparedPipelines()
        return self.prepared

    def for_another(self, **changed: Any) -> CompileState:
        """A new state for another module in the same context and for the same target; `changed` sets other fields."""
        kept = CompileState(target=self.target, machine=self.machine, prepared=self.pipelines)
        return replace(kept, **changed)

    def report_phase(self, name: str) -> None:
        """Reports that a phase was reached."""
        if self.reporter is not None:
            self.reporter.report("phase", step=name)

    @contextmanager
    def in_phase(self, name: str) -> Iterator[None]:
        """Sets the current phase; compile errors that leave the block get it as their phase."""
        before = self.phase
        self._enter(name)
        try:
            yield
        except CompileError as error:
            error.phase = error.phase or name
            raise
        finally:
            self._enter(before)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        if self.recorder is not None:
            self.recorder.phase = phase
        set_note(f"phase '{phase}'" if phase else "")

    def note_pass(self, names: str) -> None:
        """Notes for a supervisor the passes that are about to run."""
        set_note(f"phase '{self.phase}', pass '{names}'" if self.phase else f"pass '{names}'")
