"""Finds two buffers of a memory plan that share bytes while both are in use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from ...dialects import discardable
from ...passes.infra.elements import PassElement
from ...passes.infra.pipeline import Pipeline
from ...passes.ir.functions import main_function
from ...passes.ir.named_ops import ops_named
from ...passes.memref.plan_memory import PlanMemoryPass
from ...passes.memref.plan_workspaces import PlanWorkspacesPass
from .native import name_of

_PLANS = (PlanMemoryPass.name, PlanWorkspacesPass.name)


@dataclass(frozen=True)
class _Buffer:
    """One row of `stepwell.lifetimes`: bytes [offset, end) are in use from step `first` to step `last`."""

    name: str
    node: str
    offset: int
    end: int
    first: int
    last: int

    def overlaps(self, other: _Buffer) -> bool:
        """Returns whether both use a common byte at a common step."""
        in_time = self.first <= other.last and other.first <= self.last
        return in_time and self.offset < other.end and other.offset < self.end

    def __str__(self) -> str:
        node = f" of node '{self.node}'" if self.node else ""
        return f"{self.name}{node} (bytes {self.offset} to {self.end}, steps {self.first} to {self.last})"


def find_overlap(module: ir.Operation, elements: Sequence[PassElement]) -> tuple[str, str] | None:
    """Finds two overlapping buffers in use at the same time; returns the pass that placed them, and a note.

    Args:
        module: a module of kernels; it is not changed.
        elements: the passes from there on, each as one element.
    """
    copy = ir.Module.parse(str(module.get_asm(enable_debug_info=True)))
    if not discardable.INTERFACE.is_on(copy.operation):
        Pipeline(("stepwell-record-interface",)).run(copy, verify=False)
    names, start, used = [name_of(element) for element in elements], 0, {}
    for plan in _PLANS:
        if plan not in names:
            continue
        stop = names.index(plan) + 1
        Pipeline(tuple(elements[start:stop])).run(copy, verify=False)
        start = stop
        buffers = list(_rows(copy))
        used = used or _used_steps(main_function(copy.operation))
        # The lifetimes in the plan itself may be too short.
        for number, steps in used.items():
            item = buffers[number]
            buffers[number] = replace(item, first=min(item.first, *steps), last=max(item.last, *steps))
        for first, second in itertools.combinations(buffers, 2):
            if first.overlaps(second):
                return plan, f"two buffers overlap: {first} and {second}"
    return None


def _rows(module: ir.Module) -> Iterator[_Buffer]:
    for row in discardable.LIFETIMES.read(module.operation, ()):
        offset, size, first, last = (ir.IntegerAttr(row[key]).value for key in ("offset", "bytes", "first", "last"))
        node = ir.StringAttr(row["node"]).value if "node" in row else ""
        yield _Buffer(ir.StringAttr(row["name"]).value, node, offset, offset + size, first, last)


def _used_steps(main: ir.Operation) -> dict[int, list[int]]:
    """Returns the steps of the calls that get a view of a buffer, by the buffer's number."""
    found: dict[int, list[int]] = {}
    for view in ops_named(main, "memref.view"):
        number = discardable.BUFFER.read(view)
        if number is not None:
            found.setdefault(number, []).extend(_steps_of_users(view))
    return {number: steps for number, steps in found.items() if steps}


def _steps_of_users(view: ir.Operation) -> Iterator[int]:
    for use in view.results[0].uses:
        user = use.owner.operation
        step = discardable.STEP.read(user)
        if step is not None:
            yield step
        elif len(user.results) and isinstance(user.results[0].type, ir.MemRefType):
            yield from _steps_of_users(user)
