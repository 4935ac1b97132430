"""Execution time report of a pipeline in the format of `mlir-opt`, with upstream and Python passes together."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir import ir

from .elements import Nested
from .instrumentation import Instrumentation, PassStep, title_of

_RULE = "===" + "-" * 73 + "==="
_TITLE = f"{_RULE}\n{'... Execution time report ...':^79}".rstrip() + f"\n{_RULE}"


@dataclass
class Timer:
    """The time spent under one name, and its division among nested names."""

    name: str
    seconds: float = 0.0
    children: dict[int, Timer] = field(default_factory=dict)

    def child(self, key: object, name: str) -> Timer:
        """The timer of a nested name, created at the first request."""
        return self.children.setdefault(id(key), Timer(name))


class Timing(Instrumentation):
    """Measures every pass. The times of nested passes are summed over the ops that they ran on.

    Attributes:
        root: the tree of timers.
    """

    def __init__(self) -> None:
        self.root = Timer("Total")
        self._stack = [self.root]
        self._starts: list[float] = []
        self._started = time.perf_counter()
        # Keys are object identities, so the objects must stay alive.
        self._seen: list[object] = []

    def before_nested(self, nested: Nested) -> None:
        """Starts the timer of a nested pipeline."""
        self._start(nested, f"'{nested.anchor}' Pipeline")

    def after_nested(self, nested: Nested) -> None:
        """Stops the timer."""
        self._stop()

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Starts the timer of a pass."""
        self._start(step, title_of(step))

    def after_pass(self, step: PassStep, op: ir.Operation) -> None:
        """Stops the timer."""
        self._stop()

    def after_pass_failed(self, step: PassStep, op: ir.Operation) -> None:
        """Stops the timer."""
        self._stop()

    def phase(self, name: str, seconds: float) -> None:
        """Adds the time of a step that is not a pass, such as parsing."""
        self._seen.append(timer := Timer(name, seconds))
        self.root.children[id(timer)] = timer

    def report(self, as_list: bool = False, as_json: bool = False) -> str:
        """The report as text or JSON: a tree in execution order, or a list sorted by time."""
        self.root.seconds = time.perf_counter() - self._started
        rows = [(self.root.seconds, "root"), *_by_name(self.root)] if as_list else _rows(self.root, 0)
        rest = self.root.seconds - sum(child.seconds for child in self.root.children.values())
        if as_json:
            return self._json(self.root.children.values() if not as_list else (), rows if as_list else (), rest)
        rows += [(rest, "Rest"), (self.root.seconds, "Total")]
        lines = [f"  {seconds:8.4f} ({self._percent(seconds):5.1f}%)  {name}" for seconds, name in rows]
        head = (
            f"{_TITLE}\n  Total Execution Time: {self.root.seconds:.4f} seconds\n\n  ----Wall Time----  ----Name----\n"
        )
        return head + "\n".join(lines) + "\n"

    def _json(self, timers: Iterable[Timer], rows: Iterable[tuple[float, str]], rest: float) -> str:
        """The report in JSON: a tree of timers, or rows."""
        lines = [line for timer in timers for line in self._json_tree(timer, "")]
        lines += [f"{self._entry(seconds, name)}}}," for seconds, name in rows]
        lines += [f"{self._entry(rest, 'Rest')}}},", f"{self._entry(self.root.seconds, 'Total')}}}"]
        return "[\n" + "\n".join(lines) + "\n]\n"

    def _json_tree(self, timer: Timer, indent: str) -> list[str]:
        inner = [line for child in timer.children.values() for line in self._json_tree(child, f"{indent}  ")]
        head = f'{indent}{self._entry(timer.seconds, timer.name)}, "passes": ['
        return [head, *inner, f"{indent}{{}}]}},"]

    def _entry(self, seconds: float, name: str) -> str:
        numbers = f'"duration": {seconds:8.4f}, "percentage": {self._percent(seconds):5.1f}'
        return f'{{"wall": {{{numbers}}}, "name": "{name}"'

    def _percent(self, seconds: float) -> float:
        return 100 * seconds / self.root.seconds

    def _start(self, key: object, name: str) -> None:
        self._seen.append(key)
        self._stack.append(self._stack[-1].child(key, name))
        self._starts.append(time.perf_counter())

    def _stop(self) -> None:
        self._stack.pop().seconds += time.perf_counter() - self._starts.pop()


def _rows(timer: Timer, depth: int) -> list[tuple[float, str]]:
    rows = []
    for child in timer.children.values():
        rows.append((child.seconds, "  " * depth + child.name))
        rows += _rows(child, depth + 1)
    return rows


def _by_name(root: Timer) -> list[tuple[float, str]]:
    """The time per name, leaves only, longest first."""
    sums: dict[str, float] = {}
    pending = list(root.children.values())
    while pending:
        timer = pending.pop()
        pending += timer.children.values()
        if not timer.children:
            sums[timer.name] = sums.get(timer.name, 0.0) + timer.seconds
    return sorted(((seconds, name) for name, seconds in sums.items()), reverse=True)
