"""Plans of training steps within a number of bytes: some values of the forward pass are computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir

from ..dialects import discardable
from ..dialects.registry import load_dialects
from ..driver.api import interface_of
from ..driver.compile.planned_memory import planned_bytes
from ..driver.context import compiler_context
from ..driver.setup import Setup
from ..driver.sources.reading import read_source
from ..passes.differentiation.recomputation import StepGraph
from ..passes.differentiation.step_plan import RepeatedOps
from ..passes.ir.functions import body_of, main_function
from ..passes.ir.locations import dominant
from ..runtime.recomputation import ForwardValue, Recomputation
from ..support.errors import OptionError, StepwellWarning
from ..support.short_repr import size_of
from ..support.warning import warn
from ..targets.registry import target_of

_MARGIN = 1.15
"""Largest quotient of an estimated peak, scaled by that of the step as it is, and the budget at which a choice is
planned: estimates of the models of `stepwell-bench train` are at most this much too high."""


@dataclass(frozen=True)
class Planned:
    """A training step within a budget.

    Attributes:
        text: its module.
        report: what is kept, and what is computed again.
    """

    text: bytes
    report: Recomputation


def check_budget(budget: int | float | None) -> None:
    """Checks a number of bytes, or a fraction.

    Raises:
        OptionError: it is neither.
    """
    is_number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if budget is not None and not (is_number and (0 < budget <= 1 or (isinstance(budget, int) and budget > 1))):
        raise OptionError(f"memory_budget must be a number of bytes, or a fraction up to 1, but is {budget!r}")


def within(text: bytes, forward: int, budget: int | float, setup: Setup, stated: int | None = None) -> Planned:
    """Plans a training step so that its values take at most `budget` bytes, in as little time as possible.

    Choices are planned from the cheapest to that of the smallest estimated peak, up to the first one that fits. A
    warning says if none does; the one with the smallest peak is taken then.

    Args:
        text: the module of the step.
        forward: number of ops of the forward pass at the start of @main.
        budget: number of bytes; a number up to 1 is a fraction of those of the step as it is.
        setup: how the module is compiled.
        stated: number of bytes that the report calls the budget; by default `budget`.

    Raises:
        PassFailure, PassError: a pass failed.
    """
    plan = _Plan(text, forward, setup)
    without = plan.bytes_with(text)
    allowed = budget if isinstance(budget, int) and budget > 1 else int(budget * without)
    first, *others = plan.choices()
    best = (without, first, text)
    for choice in others:
        if best[0] <= allowed:
            break
        if choice is not others[-1] and choice.peak * without > _MARGIN * allowed * first.peak:
            continue
        changed = plan.changed(choice)
        taken = plan.bytes_with(changed)
        if taken < best[0]:
            best = (taken, choice, changed)
    peak, choice, chosen = best
    if peak > allowed:
        warn(
            f"memory_budget is {size_of(allowed)}, but the step takes {size_of(peak)} even if much is computed again",
            StepwellWarning,
        )
    report = plan.report(choice, allowed if stated is None else stated, peak, without)
    return Planned(_with_report(chosen, report), report)


def _with_report(text: bytes, report: Recomputation) -> bytes:
    """Returns a module with a report among its attributes, by which the report of its code shows it."""
    with _parsed(text) as module:
        discardable.RECOMPUTATION.write(module.operation, [report.record()])
        return str(module.operation.get_asm(enable_debug_info=True)).encode()


class _Plan:
    def __init__(self, text: bytes, forward: int, setup: Setup) -> None:
        self._text, self._forward, self._setup = text, forward, setup
        self._machine = target_of(setup.target).machine

    def bytes_with(self, text: bytes) -> int:
        source = read_source(text)
        shapes = {info.name: tuple(map(int, info.shape)) for info in interface_of(source)[1]}
        return planned_bytes(source, shapes, self._setup)

    def choices(self) -> list[RepeatedOps]:
        with _parsed(self._text) as module:
            return self._graph(module).choices()

    def changed(self, choice: RepeatedOps) -> bytes:
        with _parsed(self._text) as module:
            self._graph(module).repeat(choice.ops)
            return str(module.operation.get_asm(enable_debug_info=True)).encode()

    def report(self, choice: RepeatedOps, budget: int, peak: int, without: int) -> Recomputation:
        with _parsed(self._text) as module:
            graph = self._graph(module)
            values = tuple(
                ForwardValue(
                    dominant(graph.ops[place].location),
                    graph.bytes_of(place),
                    graph.time_of(place) * 1e-9,
                    place in choice.ops,
                    why,
                )
                for place, why in graph.reasons(choice).items()
            )
            return Recomputation(budget, peak, without, choice.nanoseconds * 1e-9, values)

    def _graph(self, module: ir.Module) -> StepGraph:
        return StepGraph(body_of(main_function(module.operation)), self._forward, self._machine)


@contextmanager
def _parsed(text: bytes) -> Iterator[ir.Module]:
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        yield ir.Module.parse(text)
