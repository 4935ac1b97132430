"""Pass instrumentation: hooks before and after every pass on every op, and IR printing built on them.

The dumps have the format of `mlir-opt`, so that the same tools can read both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from mlir import ir

from ...dialects.symbols import symbol_of
from .base import Pass
from .elements import Nested, Upstream
from .upstream import class_name

PassStep = Pass | Upstream


def title_of(step: PassStep) -> str:
    """The name of a step in dumps and reports: its C++ or Python class name."""
    return class_name(step.name) if isinstance(step, Upstream) else type(step).__name__


class Instrumentation:
    """Base of pass instrumentation; override the hooks that matter."""

    def before_nested(self, nested: Nested) -> None:
        """Called before the passes inside `nested` run."""

    def after_nested(self, nested: Nested) -> None:
        """Called after the passes inside `nested` have run on all their ops."""

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Called before `step` runs on `op`."""

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Called after `step` has run on `op`, with valid IR."""

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        """Called after `step` has failed on `op`; the IR may be invalid."""

    def after_phase(self, phase: str, op: ir.Operation) -> None:
        """Called when a compile has taken the module `op` to a phase; the first one of each module is `import`."""


@dataclass(frozen=True)
class PrintFlags:
    """Printing flags of IR, named as in `Operation.get_asm`."""

    large_elements_limit: int | None = None
    large_resource_limit: int | None = None
    enable_debug_info: bool = False
    pretty_debug_info: bool = False
    print_generic_op_form: bool = False
    use_local_scope: bool = False
    use_name_loc_as_prefix: bool = False
    assume_verified: bool = False
    skip_regions: bool = False

    def print(self, op: ir.Operation) -> str:
        """The text of an op."""
        return str(op.get_asm(**vars(self)))


def never(argument: str) -> bool:
    """Selects no pass."""
    return False


def always(argument: str) -> bool:
    """Selects every pass."""
    return True


@dataclass
class PrintIR(Instrumentation):
    """Dumps the IR around passes.

    Attributes:
        before: predicate on pass names: print before these passes.
        after: predicate on pass names: print after these passes.
        only_on_change: whether to print nothing after a pass that changed nothing.
        on_failure: whether to print only the IR that a failed pass leaves, not the IR after other passes.
        module_scope: whether to print the whole module instead of only the op that the pass ran on.
        flags: printing flags.
        stream: stream to print to; None for the standard error stream.
        folder: where to write a tree of files instead, one folder per op and one file per dump.
    """

    before: Callable[[str], bool] = never
    after: Callable[[str], bool] = always
    only_on_change: bool = False
    on_failure: bool = False
    module_scope: bool = False
    flags: PrintFlags = PrintFlags()
    stream: TextIO | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        self._previous = ""
        self._counters: dict[ir.Operation, int] = {}

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Prints the IR if selected, and stores it if changes must be detected."""
        if self.only_on_change:
            self._previous = str(op)
        if self.before(step.name):
            self._dump(f"IR Dump Before {title_of(step)} ({step.name})", step, op)

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Prints the IR if selected and, with `only_on_change`, if the pass changed it."""
        is_same = self.only_on_change and str(op) == self._previous
        if self.after(step.name) and not self.on_failure and not is_same:
            self._dump(f"IR Dump After {title_of(step)} ({step.name})", step, op)

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        """Prints the IR that the failed pass left."""
        if self.after(step.name) or self.on_failure:
            self._dump(f"IR Dump After {title_of(step)} Failed ({step.name})", step, op)

    def _dump(self, header: str, step: PassStep, op: ir.Operation) -> None:
        flags = self.flags
        if self.module_scope:
            name = f": @{symbol_of(op)}" if symbol_of(op) else ""
            header += f" ('{op.name}' operation{name})"
        elif op.parent is not None:
            flags = replace(flags, use_local_scope=True)
        text = flags.print(_root(op) if self.module_scope else op)
        self._write(f"// -----// {header} //----- //\n{text}\n\n", step, op)

    def _write(self, text: str, step: PassStep, op: ir.Operation) -> None:
        if self.folder is None:
            print(text, end="", file=self.stream or sys.stderr, flush=True)
            return
        path = self.folder.joinpath(*_path_elements(op)) / f"{self._count(op)}_{step.name}.mlir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _count(self, op: ir.Operation) -> str:
        """The dump numbers of the op's ancestors and of the op itself, outermost first, joined by `_`."""
        self._counters[op] = self._counters.get(op, -1) + 1
        return "_".join(str(self._counters.setdefault(each, 0)) for each in reversed(_ancestors(op)))


def _ancestors(op: ir.Operation) -> list[ir.Operation]:
    """The op, its parent, and so on up to the root."""
    found = [op]
    while (parent := found[-1].parent) is not None:
        found.append(parent.operation)
    return found


def _root(op: ir.Operation) -> ir.Operation:
    return _ancestors(op)[-1]


def _path_elements(op: ir.Operation) -> list[str]:
    """One folder name per op from the root to `op`."""
    names = (
        f"{each.name.replace('.', '_')}_{symbol_of(each) or 'no-symbol-name'}" for each in reversed(_ancestors(op))
    )
    return [re.sub(r"[^\w.-]", "_", name) for name in names]
