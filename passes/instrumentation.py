"""What can watch a pipeline run: hooks before and after every pass on every op, and the printing of IR through them.

The dumps look as those of `mlir-opt` do, so that whatever reads one reads the other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from mlir import ir

from .base import Pass
from .pipeline import Nested, Upstream
from .upstream import class_name

Step = Pass | Upstream


def argument_of(step: Step) -> str:
    """The name of a step in textual pipelines."""
    return step.name


def title_of(step: Step) -> str:
    """The name of a step in dumps and reports: that of its class, C++ or Python."""
    return class_name(step.name) if isinstance(step, Upstream) else type(step).__name__


class Instrumentation:
    """Base of what watches a pipeline; override the hooks that matter."""

    def before_nested(self, nested: Nested) -> None:
        """The passes inside `nested` are about to run."""

    def after_nested(self, nested: Nested) -> None:
        """The passes inside `nested` have run on all their ops."""

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        """`step` is about to run on `op`."""

    def after_pass(self, step: Step, op: ir.Operation) -> None:
        """`step` has run on `op`, and the IR is valid."""

    def after_pass_failed(self, step: Step, op: ir.Operation) -> None:
        """`step` has failed on `op`; the IR may be anything."""


@dataclass(frozen=True)
class PrintFlags:
    """How IR is printed; the names are those of `Operation.get_asm`."""

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
        before: selects, by name, the passes before which to print.
        after: likewise, after which.
        only_on_change: whether passes that change nothing print nothing after them.
        on_failure: whether to print the IR that a failed pass leaves, and after no other.
        module_scope: whether to print the whole module and not only the op that the pass ran on.
        flags: how to print.
        stream: where to print; None for the standard error stream.
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

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        """Prints if asked for, and remembers the IR where changes are looked for."""
        if self.only_on_change:
            self._previous = str(op)
        if self.before(step.name):
            self._dump(f"IR Dump Before {title_of(step)} ({step.name})", step, op)

    def after_pass(self, step: Step, op: ir.Operation) -> None:
        """Prints if asked for and, where changes are looked for, if the pass changed something."""
        is_same = self.only_on_change and str(op) == self._previous
        if self.after(step.name) and not self.on_failure and not is_same:
            self._dump(f"IR Dump After {title_of(step)} ({step.name})", step, op)

    def after_pass_failed(self, step: Step, op: ir.Operation) -> None:
        """Prints what the failed pass left."""
        if self.after(step.name) or self.on_failure:
            self._dump(f"IR Dump After {title_of(step)} Failed ({step.name})", step, op)

    def _dump(self, header: str, step: Step, op: ir.Operation) -> None:
        flags = self.flags
        if self.module_scope:
            name = f": @{_symbol(op)}" if _symbol(op) else ""
            header += f" ('{op.name}' operation{name})"
        elif op.parent is not None:
            flags = replace(flags, use_local_scope=True)
        text = flags.print(_root(op) if self.module_scope else op)
        self._write(f"// -----// {header} //----- //\n{text}\n\n", step, op)

    def _write(self, text: str, step: Step, op: ir.Operation) -> None:
        if self.folder is None:
            print(text, end="", file=self.stream or sys.stderr, flush=True)
            return
        path = self.folder.joinpath(*_path_elements(op)) / f"{self._count(op)}_{step.name}.mlir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _count(self, op: ir.Operation) -> str:
        """The numbers of the dumps of the op's parents and of the op itself, outermost first."""
        self._counters[op] = self._counters.get(op, -1) + 1
        return "_".join(str(self._counters.setdefault(each, 0)) for each in reversed(_ancestors(op)))


def _ancestors(op: ir.Operation) -> list[ir.Operation]:
    """`op`, what it is in, and so on to the root."""
    found = [op]
    while (parent := found[-1].parent) is not None:
        found.append(parent.operation)
    return found


def _root(op: ir.Operation) -> ir.Operation:
    return _ancestors(op)[-1]


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _path_elements(op: ir.Operation) -> list[str]:
    """One folder name per op from the root to `op`."""
    names = (f"{each.name.replace('.', '_')}_{_symbol(each) or 'no-symbol-name'}" for each in reversed(_ancestors(op)))
    return [re.sub(r"[^\w.-]", "_", name) for name in names]
