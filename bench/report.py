"""Tables of measured figures for the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..lm.divergence import Divergence
from ..runtime.devices.peaks import Peaks
from ..support.wording import duration
from .compare import Comparison
from .language import LanguageFigure
from .new_sizes import NewSizes
from .ranges import Ranges
from .record import CaseRows, Results, Row, geometric_mean
from .training import HERE, TrainingFigure
from .training_curves import CurveFigure

_NONE = "-"
_NAMED = 4


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: the line above it.
        headers: the column headers.
        rows: the rows, each as long as the headers.
        words: the headers of columns without numbers.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str]


def tables(results: Results) -> list[Table]:
    """Returns all tables of a file of results."""
    cases = results.cases()
    made = {
        "models": lambda: [_peaks(results.peaks), _times(results, cases), _starts(cases), _means(results)],
        "torch": lambda: [_modules(cases), _first_calls(cases), _means(results)],
        "kernels": lambda: [_peaks(results.peaks), _times(results, cases), _means(results)],
        "growth": lambda: [_growth(results.rows)],
        "sessions": lambda: [_sessions(results.rows)],
    }[results.what]()
    return [table for table in [*made, _failures(results)] if table.rows]


def change_table(comparison: Comparison, tolerance: float) -> Table:
    """Returns the table of changes between two files."""
    rows = [
        (
            change.case,
            str(change.threads),
            f"{change.old:.4g}",
            f"{change.new:.4g}",
            f"{change.factor:.2f}",
            "SLOWER" if change.is_regression(tolerance) else "",
        )
        for change in comparison.changes
    ]
    headers = ("case", "threads", "old", "new", "new / old", "")
    return Table(f"In {comparison.unit}, worst first", headers, rows, ("case", ""))


def ranges_table(model: str, made: Ranges) -> Table:
    """Returns the table of a program for ranges of sizes beside those for each size."""
    rows = [
        (
            ", ".join(f"{name}={size}" for name, size in figure.sizes.items()),
            _seconds(figure.ranged_seconds),
            _seconds(figure.alone_seconds),
            f"{figure.ratio:.2f}",
            _difference([figure.difference]),
        )
        for figure in made.figures
    ]
    compiled = f"compiled in {_seconds(made.compile_seconds)}, {made.compile_ratio:.1f} times as long as for one size"
    title = f"{model}: programs for all sizes: {made.programs}, {compiled}"
    return Table(title, ("sizes", "for the ranges", "alone", "ranges / alone", "difference"), rows, ("sizes",))


def ranges_summary(found: Mapping[str, Ranges]) -> Table:
    """Returns the table of several models in ranges: times relative to those of programs for only one size."""
    rows = [
        (
            name,
            str(len(made.figures)),
            *(f"{figure:.2f}" for figure in _summary(made.ratios)),
            f"{made.compile_ratio:.1f}",
        )
        for name, made in found.items()
    ]
    everything = [ratio for made in found.values() for ratio in made.ratios]
    rows.append(("all", str(len(everything)), *(f"{figure:.2f}" for figure in _summary(everything)), _NONE))
    headers = ("model", "sizes", "least", "median", "greatest", "compile")
    return Table("Time in ranges / time of a program for one size", headers, rows, ("model",))


def _summary(ratios: Sequence[float]) -> tuple[float, float, float]:
    return min(ratios), statistics.median(ratios), max(ratios)


def language_table(model: str, made: Sequence[LanguageFigure]) -> Table:
    """Returns the table of prompts and steps of a language model."""
    rows = [
        (
            item.name,
            str(item.texts),
            str(item.depth),
            str(item.tokens),
            _seconds(item.seconds),
            f"{item.tokens / item.seconds:.1f}",
            f"{item.bytes / item.seconds / 1e9:.1f}" if item.bytes else "",
            f"{100 * item.rate_share:.0f} %" if item.bytes else "",
        )
        for item in made
    ]
    headers = ("call", "texts", "depth", "tokens", "time", "tokens/s", "GB/s", "of read rate")
    return Table(f"{model}: prompts and steps", headers, rows, ("call",))


def training_table(made: Sequence[TrainingFigure]) -> Table:
    """Returns the table of training steps; the last column is the time of a system divided by that of Stepwell."""
    own = {item.model: item.step for item in made if item.system == HERE}
    rows = [
        (
            item.model,
            item.system,
            _seconds(item.first),
            _seconds(item.step),
            f"{item.loss:.4f}",
            f"{item.step / own[item.model]:.2f}",
        )
        for item in made
    ]
    headers = ("model and batch", "system", "first step", "step", "loss after 4", "of Stepwell's time")
    return Table("training steps", headers, rows, ("model and batch", "system"))


def training_means(made: Sequence[TrainingFigure]) -> Table:
    """Returns the table of how often the time of an implementation of Stepwell fits into that of another system."""
    steps: dict[str, dict[str, TrainingFigure]] = {}
    for item in made:
        steps.setdefault(item.system, {})[item.model] = item
    own = [system for system in steps if HERE in system]
    rows = []
    for system in own:
        for peer in (name for name in steps if name not in own):
            ratios = [steps[peer][model].step / item.step for model, item in steps[system].items()]
            first = [steps[peer][model].first / item.first for model, item in steps[system].items()]
            means = (f"{statistics.geometric_mean(found):.2f}" for found in (ratios, first))
            rows.append((system, peer, *means, f"{min(ratios):.2f}"))
    headers = ("system", "peer", "step of the peer / own", "first step of the peer / own", "least")
    return Table("geometric means", headers, rows, ("system", "peer"))


def curve_table(made: Sequence[CurveFigure]) -> Table:
    """Returns the table of losses over many steps."""
    rows = [
        (
            item.model,
            str(item.steps),
            f"{item.first:.4f}",
            f"{item.last:.4f}",
            f"{item.deviation:.1e}",
            f"{item.rounding:.1e}",
            "yes" if item.is_repeatable else "no",
            "yes" if item.is_same_on_threads else "no",
        )
        for item in made
    ]
    headers = ("model", "steps", "first loss", "last", "from eager", "eager from f64", "repeatable", "same on threads")
    return Table("losses", headers, rows, ("model", "repeatable", "same on threads"))


def divergence_table(model: str, reference: str, found: Divergence) -> Table:
    """Returns the table of the distance of a language model from another one."""
    return Table(f"{model} and {reference}", ("figure", "value"), found.figures(), ("figure",))


def new_sizes_table(model: str, made: NewSizes) -> Table:
    """Returns the table of first calls at new sizes."""
    rows = [
        (
            ", ".join(f"{name}={size}" for name, size in call.sizes.items()),
            _seconds(call.alone_seconds),
            _seconds(call.alone_later_seconds),
            _seconds(call.ranged_seconds),
            _seconds(call.ranged_later_seconds),
            str(call.programs),
        )
        for call in made.calls
    ]
    headers = ("sizes", "first call alone", "later", "first call in ranges", "in ranges, later", "programs")
    title = f"{model}: first calls at new sizes, each compiled alone, and in ranges"
    return Table(title, headers, rows, ("sizes",))


def _growth(rows: Sequence[Row]) -> Table:
    headers = ("model", "layers", "system", "cold start", "processor", "per layer", "processor per further layer")
    made, before = [], {}
    for row in rows:
        if row.cold_seconds is None or row.cold_cpu_seconds is None:
            continue
        layers = int(row.case.rpartition("-")[2])
        last = before.get(row.system)
        further = (row.cold_cpu_seconds - last[1]) / (layers - last[0]) if last and layers > last[0] else None
        before[row.system] = layers, row.cold_cpu_seconds
        times = (row.cold_seconds, row.cold_cpu_seconds, row.cold_seconds / layers)
        step = _NONE if further is None else f"{1e3 * further:.1f} ms"
        made.append((row.case, str(layers), row.system, *map(_seconds, times), step))
    title = "Cold starts by layers: growth is linear if every further layer costs the same"
    return Table(title, headers, made, ("model", "system"))


def _sessions(rows: Sequence[Row]) -> Table:
    headers = ("model", "threads of each", "system", "one session", "two at once", "two / one")
    made = [
        (
            row.case,
            str(row.threads),
            row.system,
            f"{row.one_session:.4g} calls/s",
            f"{row.two_sessions:.4g} calls/s",
            _times_faster(row.two_sessions / row.one_session),
        )
        for row in rows
        if row.one_session and row.two_sessions
    ]
    return Table(
        "Calls per second of one session, and of two concurrent ones together", headers, made, ("model", "system")
    )


def _peaks(peaks: dict[int, Peaks]) -> Table:
    sizes = [size for size, _ in next(iter(peaks.values())).copy] if peaks else []
    headers = ("cores", "FMA", "", *map(_bytes, sizes))
    rows = [
        (str(threads), _rate(limit.flops, "F"), name, *(_rate(rate, "B") for _, rate in curve))
        for threads, limit in peaks.items()
        for name, curve in (("copy", limit.copy), ("read", limit.read))
    ]
    return Table("Measured limits of the machine; memory bandwidth by size of the data", headers, rows, ("",))


def _times(results: Results, cases: Sequence[CaseRows]) -> Table:
    peers = list(dict.fromkeys(name for case in cases for name in case.peers))
    is_bare = results.what == "kernels"
    headers = [results.what[:-1], "threads", "stepwell", "GF/s", "GB/s", "of peak"]
    headers += ["of peak then", "of a copy"] if is_bare else []
    headers += [*peers, "difference", "fastest peer", "faster by"]
    rows = [
        (
            case.here.case,
            str(case.here.threads),
            _seconds(case.here.median_seconds),
            _per_second(case.here.flops, case.here),
            _per_second(case.here.bytes, case.here),
            _percent(case.share_of_peak),
            *(_beside(case) if is_bare else ()),
            *(_against(case, case.peers.get(name)) for name in peers),
            _difference(row.difference for row in case.peers.values()),
            case.fastest.system if case.fastest else _NONE,
            _times_faster(case.speedup(case.fastest)),
        )
        for case in cases
    ]
    title = "Medians; in brackets, and last, how many times faster Stepwell is (below 1: slower)"
    return Table(title, headers, rows, (results.what[:-1], "fastest peer"))


def _starts(cases: Sequence[CaseRows]) -> Table:
    headers = ("model", "threads", "system", "cold start", "processor", "cached start", "memory", "artefact")
    headers += ("difference", "arena", "lower bound")
    rows = [
        (
            row.case,
            str(row.threads),
            row.system,
            _seconds(row.cold_seconds),
            _seconds(row.cold_cpu_seconds),
            _seconds(row.start_seconds),
            _bytes(row.memory_bytes),
            _bytes(row.artefact_bytes),
            _difference([row.difference]),
            _bytes(row.arena_bytes),
            _bytes(row.arena_lower_bound),
        )
        for case in cases
        for row in (case.here, *case.peers.values())
        if not row.reason
    ]
    return Table("Starts, memory, and differences of outputs", headers, rows, ("model", "system"))


def _modules(cases: Sequence[CaseRows]) -> Table:
    peers = list(dict.fromkeys(name for case in cases for name in case.peers))
    rows = [
        (
            case.here.case,
            str(case.here.threads),
            _seconds(case.here.median_seconds),
            *(_against(case, case.peers.get(name)) for name in peers),
            _difference(row.difference for row in case.peers.values()),
        )
        for case in cases
    ]
    title = "Medians; in brackets, how many times faster Stepwell's torch.compile is (below 1: slower)"
    return Table(title, ("module", "threads", "stepwell", *peers, "difference"), rows, ("module",))


def _first_calls(cases: Sequence[CaseRows]) -> Table:
    headers = ("module", "threads", "system", "first call", "of it backend", "in a second process", "of it backend ")
    rows = [
        (
            row.case,
            str(row.threads),
            row.system,
            _seconds(row.first_call_seconds),
            _seconds(row.backend_seconds),
            _seconds(row.second_call_seconds),
            _seconds(row.second_backend_seconds),
            _bytes(row.memory_bytes),
        )
        for case in cases
        for row in (case.here, *case.peers.values())
        if not row.reason
    ]
    title = "First calls, imports not included, and the peak growth of memory in the second process"
    return Table(title, (*headers, "memory"), rows, ("module", "system"))


def _means(results: Results) -> Table:
    """Returns the table of each system's mean, its least case, and the cases in which it is faster than Stepwell."""
    rows = []
    for threads, group in results.ratios().items():
        for name, ratios in group.items():
            least, where = min(ratios)
            below = [case for ratio, case in sorted(ratios) if ratio < 1]
            mean = geometric_mean(ratio for ratio, _ in ratios)
            figures = (str(len(ratios)), _times_faster(mean), _times_faster(least))
            rows.append((threads, name, *figures, where, str(len(below)), _some(below) or _NONE))
    headers = ("threads", "than", "cases", "geometric mean", "least", "of", "below 1", "which")
    return Table("How many times faster Stepwell is", headers, rows, ("than", "of", "which"))


def _failures(results: Results) -> Table:
    reasons: dict[tuple[str, str], list[str]] = {(name, why): ["anything"] for name, why in results.missing.items()}
    for row in results.rows:
        if row.reason:
            reasons.setdefault((row.system, row.reason), []).append(row.case)
    rows = [(system, why, _some(list(dict.fromkeys(cases)))) for (system, why), cases in reasons.items()]
    headers = ("system", "why", "what")
    return Table("Not measured", headers, rows, headers)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _beside(case: CaseRows) -> tuple[str, str]:
    """Returns the further figures of a kernel beside the machine's limits."""
    return _percent(case.share_of_peak_then), _share(case.here.copy_seconds, case.here.median_seconds)


def _against(case: CaseRows, peer: Row | None) -> str:
    if peer is None or peer.median_seconds is None:
        return _NONE
    return f"{duration(peer.median_seconds)} ({_times_faster(case.speedup(peer))})"


def _seconds(seconds: float | None) -> str:
    return _NONE if seconds is None else duration(seconds)


def _per_second(amount: float | None, row: Row) -> str:
    return _NONE if not amount or row.median_seconds is None else f"{amount / row.median_seconds / 1e9:.3g}"


def _difference(found: Iterable[float | None]) -> str:
    """Formats the largest of some differences."""
    known = [number for number in found if number is not None]
    return f"{max(known):.1e}" if known else _NONE


def _share(part: float | None, whole: float | None) -> str:
    return _NONE if part is None or whole is None else _percent(part / whole)


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.0f} %"


def _times_faster(ratio: float | None) -> str:
    return _NONE if ratio is None else f"{ratio:.2f}"


def _rate(number: float, unit: str) -> str:
    return f"{number / 1e9:.3g} G{unit}/s"


def _bytes(number: float | None) -> str:
    if number is None:
        return _NONE
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 1 << shift:
            return f"{number / (1 << shift):.3g} {unit}"
    return f"{number:.0f} B"
