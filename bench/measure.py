"""Measures models and kernels: starts every system, then runs turns, round by round."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.devices import peaks
from ..runtime.program import Shape
from ..support.wording import quantity
from ..tools.console import ProgressBar
from . import kernels, turns
from .bert import BertConfig, make_bert, random_weights
from .machine import cores
from .models import BenchModel, MissingModel
from .peers import HERE, Job
from .record import Row

_SLOW_TURNS = 5
_FIRST = ("first_call_seconds", "backend_seconds")
_FACTS = ("artefact_bytes", "arena_bytes", "arena_lower_bound")

# The transformer for compile times: layers of the usual form, but small, so that weights hardly matter.
_GROWING = {"vocabulary": 512, "positions": 64, "hidden": 128, "heads": 4, "intermediate": 512}
_GROWING_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_GROWING_SHAPE = (1, 32)


@dataclass(frozen=True)
class BenchPlan:
    """The settings of a measurement.

    Attributes:
        systems: Stepwell and the installed peers.
        threads: numbers of threads of a call.
        rounds: number of turns of each system.
        seconds: duration of a turn.
        limit: time limit of a system's start in seconds.
        folder: the folder for data that systems keep between processes.
        done: the cases, numbers of threads and systems that need not be measured.
    """

    systems: Sequence[str]
    threads: Sequence[int]
    rounds: int
    seconds: float
    limit: float
    folder: Path
    done: frozenset[tuple[str, int, str]] = frozenset()

    def is_done(self, case: str) -> bool:
        """Returns whether all systems have been measured on a case, at every number of threads."""
        return all((case, count, system) in self.done for count in self.threads for system in self.systems)


def find_peaks(threads: Sequence[int]) -> dict[int, peaks.Peaks]:
    """Measures the machine's limits for each number of cores."""
    found = {}
    for count in threads:
        with turns.pinned(count) as worker:
            found[count] = worker.ask("run", "stepwell.runtime.devices.peaks", "measure", cores()[:count])
    return found


def _found(model: BenchModel, plan: BenchPlan, steps: ProgressBar) -> Path | list[Row]:
    """Returns the file of a model, or rows that say why there is none."""
    steps.next(f"{model.name}: finding the model")
    try:
        return model.file(plan.folder)
    except MissingModel as missing:
        return [Row(model.name, "model", {}, count, HERE, f"not here: {missing}") for count in plan.threads]


def measure_model(
    model: BenchModel, plan: BenchPlan, limits: Mapping[int, peaks.Peaks], steps: ProgressBar
) -> Iterator[Row]:
    """Measures all systems on a model, at every number of threads."""
    found = _found(model, plan, steps)
    if not isinstance(found, Path):
        yield from found
        return
    path, inputs = found, model.inputs(found)
    shapes = {name: array.shape for name, array in inputs.items()}

    def job(system: str, threads: int) -> Job:
        return Job(model.name, path, inputs, threads, turns.folder_for(plan.folder, model.name, system), model.torch)

    rows, outputs = {}, {}
    work: Sequence[tuple[int, float, float]] = ()
    for system in plan.systems:
        steps.next(f"{model.name}: a cold start of {system}")
        row = Row(model.name, "model", shapes, 0, system)
        try:
            with turns.free(max(plan.threads)) as worker:
                start = worker.ask("open", system, job(system, max(plan.threads)), timeout=plan.limit)
                facts = worker.ask("facts")
        except turns.SystemFailure as failure:
            rows[system] = replace(row, reason=str(failure))
            continue
        outputs[system] = start.outputs
        work = facts.get("kernels", work)
        rows[system] = replace(
            row,
            cold_seconds=start.seconds,
            cold_cpu_seconds=start.cpu_seconds,
            difference=None if system == HERE else difference(outputs.get(HERE), start.outputs),
            **{name: facts[name] for name in _FACTS if name in facts},
        )
    for threads in plan.threads:
        bound = _bound(work, limits[threads])
        opened = {name: replace(row, threads=threads, **bound) for name, row in rows.items()}
        yield from _turns(opened, job, plan, steps)


def measure_module(name: str, plan: BenchPlan, steps: ProgressBar) -> Iterator[Row]:
    """Measures all systems on a module of torch, at every number of threads."""

    def job(system: str, threads: int) -> Job:
        return Job(name, Path(), {}, threads, turns.folder_for(plan.folder, name, system), is_module=True)

    rows, outputs = {}, {}
    for system in plan.systems:
        steps.next(f"{name}: a cold start of {system}")
        row = Row(name, "torch", {}, 0, system)
        try:
            with turns.free(max(plan.threads)) as worker:
                outputs[system] = worker.ask("open", system, job(system, max(plan.threads)), timeout=plan.limit).outputs
                first = worker.ask("facts")
        except turns.SystemFailure as failure:
            rows[system] = replace(row, reason=str(failure))
            continue
        away = None if system == HERE else difference(outputs.get(HERE), outputs[system])
        rows[system] = replace(row, difference=away, **{fact: first[fact] for fact in _FIRST})
    for threads in plan.threads:
        opened = {system: replace(row, threads=threads) for system, row in rows.items()}
        yield from _turns(opened, job, plan, steps, is_module=True)


def measure_sessions(model: BenchModel, plan: BenchPlan, steps: ProgressBar) -> Iterator[Row]:
    """Measures the calls per second of one session of a model, and of two concurrent ones in the same process."""
    found = _found(model, plan, steps)
    if not isinstance(found, Path):
        yield from found
        return
    path, inputs = found, model.inputs(found)
    shapes = {name: array.shape for name, array in inputs.items()}
    for threads in plan.threads:
        rows, rates = {}, {}
        with ExitStack() as stack:
            workers = {}
            for system in plan.systems:
                steps.next(f"{model.name}: {threads} threads, a start of {system}")
                folder = turns.folder_for(plan.folder, model.name, system)
                worker = stack.enter_context(turns.free(threads))
                rows[system] = Row(model.name, "model", shapes, threads, system)
                try:
                    worker.ask("open", system, Job(model.name, path, inputs, threads, folder, model.torch))
                    worker.ask("throughput", 2, plan.seconds)
                except turns.SystemFailure as failure:
                    rows[system] = replace(rows[system], reason=str(failure))
                    continue
                workers[system], rates[system] = worker, {1: [], 2: []}
            for number in range(plan.rounds):
                steps.next(f"{model.name}: {threads} threads, round {number + 1} of {plan.rounds}")
                for system, worker in workers.items():
                    for count in (1, 2):
                        rates[system][count].append(worker.ask("throughput", count, plan.seconds))
        for system, found in rates.items():
            one, two = (statistics.median(found[count]) for count in (1, 2))
            rows[system] = replace(rows[system], one_session=one, two_sessions=two)
        yield from rows.values()


def measure_growth(layers: Sequence[int], plan: BenchPlan, steps: ProgressBar) -> Iterator[Row]:
    """Measures cold starts of transformers with these numbers of layers, on all cores."""
    shapes: dict[str, Shape] = dict.fromkeys(_GROWING_INPUTS, _GROWING_SHAPE)
    inputs = {name: np.ones(shape, np.int64) for name, shape in shapes.items()}
    for count in layers:
        name, config = f"transformer-{count}", BertConfig(layers=count, **_GROWING)
        path = plan.folder / f"{name}.onnx"
        path.write_bytes(make_bert(config, random_weights(config)).SerializeToString())
        for system in plan.systems:
            steps.next(f"{quantity(count, 'layer')}: a cold start of {system}")
            row = Row(name, "growth", shapes, plan.threads[0], system)
            job = Job(name, path, inputs, plan.threads[0], turns.folder_for(plan.folder, name, system))
            try:
                with turns.free(plan.threads[0]) as worker:
                    start = worker.ask("open", system, job, timeout=plan.limit)
            except turns.SystemFailure as failure:
                yield replace(row, reason=str(failure))
                continue
            yield replace(row, cold_seconds=start.seconds, cold_cpu_seconds=start.cpu_seconds)


def _bound(work: Sequence[tuple[int, float, float]], limit: peaks.Peaks) -> dict[str, Any]:
    """Returns the total work of a model's kernels, and a lower bound of its time, one kernel after the other."""
    if not work:
        return {}
    return {
        "flops": sum(calls * flops for calls, flops, _ in work),
        "bytes": sum(calls * size for calls, _, size in work),
        "bound_seconds": sum(calls * limit.seconds(flops, size) for calls, flops, size in work),
    }


def _turns(
    rows: Mapping[str, Row], job: Any, plan: BenchPlan, steps: ProgressBar, is_module: bool = False
) -> Iterator[Row]:
    """Runs the systems of one case in turns, each in a fresh process."""
    rows, times = dict(rows), {name: [] for name in rows}
    (threads,) = {row.threads for row in rows.values()}
    with ExitStack() as stack:
        workers = {}
        for name, row in rows.items():
            if row.reason:
                continue
            steps.next(f"{row.case}: {threads} threads, a second start of {name}")
            worker = stack.enter_context(turns.pinned(threads))
            try:
                start = worker.ask("open", name, job(name, threads), timeout=plan.limit)
                later = worker.ask("facts") if is_module else {}
            except turns.SystemFailure as failure:
                rows[name] = replace(row, reason=str(failure))
                continue
            seconds = {f"second_{fact.removeprefix('first_')}": later[fact] for fact in _FIRST if fact in later}
            rows[name] = replace(row, start_seconds=start.seconds, **seconds)
            workers[name] = worker
        for number in range(plan.rounds):
            steps.next(f"{next(iter(rows.values())).case}: {threads} threads, round {number + 1} of {plan.rounds}")
            taking = {name: worker for name, worker in workers.items() if not _is_slow(times[name], plan)}
            for name, reason in turns.take_turns(taking, plan.seconds, times).items():
                rows[name] = replace(rows[name], reason=reason)
                workers.pop(name)
        for name, worker in workers.items():
            rows[name] = replace(rows[name], memory_bytes=worker.ask("memory") or None).timed(times[name])
    yield from rows.values()


def _is_slow(times: Sequence[float], plan: BenchPlan) -> bool:
    """Returns whether two calls, each much longer than a turn, suffice."""
    return len(times) > 1 and min(times) > _SLOW_TURNS * plan.seconds


def difference(here: Sequence[np.ndarray] | None, there: Sequence[np.ndarray]) -> float | None:
    """Returns the largest difference of two systems' outputs, relative to the largest value; None if not comparable."""
    if here is None or [array.shape for array in here] != [array.shape for array in there]:
        return None
    worst = 0.0
    for ours, theirs in zip(here, there, strict=True):
        scale = float(np.abs(theirs).max(initial=0)) or 1.0
        worst = max(worst, float(np.abs(ours.astype(np.float64) - theirs).max(initial=0)) / scale)
    return worst


def measure_kernels(
    chosen: Sequence[kernels.Kernel], plan: BenchPlan, limits: Mapping[int, peaks.Peaks], steps: ProgressBar
) -> Iterator[Row]:
    """Measures all systems on each kernel, in one process per system and number of threads."""
    files = {kernel.name: kernel.write(plan.folder) for kernel in chosen}
    for threads in plan.threads:
        bench = _KernelBench(plan, threads)
        with bench:
            for kernel in chosen:
                steps.next(f"{kernel.name}, {threads} threads")
                yield from bench.measure(kernel, files[kernel.name], limits[threads])


class _KernelBench(ExitStack):
    """One process per system, which is replaced if it fails."""

    def __init__(self, plan: BenchPlan, threads: int) -> None:
        super().__init__()
        self._plan, self._threads = plan, threads
        self._workers = {name: self.enter_context(turns.pinned(threads)) for name in plan.systems}

    def measure(self, kernel: kernels.Kernel, path: Path, limit: peaks.Peaks) -> Iterator[Row]:
        """Yields the systems' rows on a kernel."""
        plan, inputs = self._plan, kernel.arrays()
        work: dict[str, Any] = {"flops": kernel.flops, "bytes": kernel.bytes}
        work["bound_seconds"] = limit.seconds(kernel.flops, kernel.bytes)
        work["copy_seconds"] = kernel.bytes / limit.copy_rate(kernel.bytes)
        rows, outputs, times = {}, {}, {name: [] for name in plan.systems}
        for name in plan.systems:
            row = Row(kernel.name, kernel.family, kernel.inputs, self._threads, name, **work)
            job = Job(kernel.name, path, inputs, self._threads, turns.folder_for(plan.folder, "kernels", name))
            try:
                start = self._workers[name].ask("open", name, job, timeout=plan.limit)
            except turns.SystemFailure as failure:
                rows[name] = replace(row, reason=str(failure))
                self._renew(name)
                continue
            outputs[name] = start.outputs
            away = None if name == HERE else difference(outputs.get(HERE), start.outputs)
            rows[name] = replace(row, start_seconds=start.seconds, difference=away)
        ready = {name: self._workers[name] for name, row in rows.items() if not row.reason}
        for _ in range(plan.rounds):
            for name, reason in turns.take_turns(ready, plan.seconds, times).items():
                rows[name] = replace(rows[name], reason=reason)
                ready.pop(name)
                self._renew(name)
        for name in ready:
            rows[name] = rows[name].timed(times[name])
        if HERE in ready and self._threads == 1 and limit.is_compute_bound(kernel.flops, kernel.bytes):
            rows[HERE] = replace(rows[HERE], peak_then=ready[HERE].ask("peak_then", plan.seconds))
        yield from rows.values()

    def _renew(self, name: str) -> None:
        """Replaces a process that has ended, or hangs."""
        if not self._workers[name].is_idle:
            self._workers[name].close()
            self._workers[name] = self.enter_context(turns.pinned(self._threads))
