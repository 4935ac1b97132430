"""`stepwell.torch_report`: the graphs that `torch.compile` gave to the backend, and the ops that run in PyTorch."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...runtime.executable import Executable
from ...runtime.host.fallback import Fallback
from ...runtime.recomputation import Recomputation
from ...support.errors import StepwellWarning
from ...support.short_repr import short_repr
from ...support.wording import quantity


class FreezingWarning(StepwellWarning):
    """Code for constant weights was dropped, since a weight has changed."""


@short_repr
@dataclass
class GraphRecord:
    """A graph that was compiled.

    Attributes:
        name: the module or function it is a part of.
        kind: "inference", "forward" or "backward"; "untraced" for a graph of Dynamo that AOTAutograd did not take;
            "higher order" if gradients of its gradients are computed, which is in PyTorch.
        compile_id: Dynamo's number of the compile, such as "0/1": the second compile of the first function.
        pieces: the compiled code, by name.
        fallbacks: the ops that run in PyTorch; those inside pieces are in `Executable.fallbacks`.
        in_place: number of arguments that PyTorch updates in place, between pieces, so that they are not copied.
        seconds: the time of the compile after Dynamo and AOTAutograd.
        note: further information; empty if there is none.
        recomputation: what `memory_budget` made the backward graph compute again; None without a budget, and for graphs
            other than forward ones.
    """

    name: str
    kind: str
    compile_id: str = ""
    pieces: dict[str, Executable] = field(default_factory=dict)
    fallbacks: Sequence[Fallback] = ()
    in_place: int = 0
    seconds: float = 0.0
    note: str = ""
    recomputation: Recomputation | None = None

    @property
    def on_torch(self) -> tuple[Fallback, ...]:
        """The ops that run in PyTorch."""
        return (*self.fallbacks, *(item for piece in self.pieces.values() for item in piece.fallbacks))

    def __str__(self) -> str:
        head = f"{self.compile_id or '-'} {self.name}: {self.kind}, {quantity(len(self.pieces), 'compiled piece')}"
        lines = [f"{head}, {self.seconds:.2f} s"]
        lines += [f"  {self.note}"] * bool(self.note)
        for name, piece in self.pieces.items():
            lines += [f"  {name}: {quantity(len(piece.programs), 'program')}"]
            lines += [f"    {line}" for line in piece.explain().splitlines()]
        lines += [f"  {quantity(self.in_place, 'argument')} updated in place by PyTorch"] * bool(self.in_place)
        lines += [f"  in PyTorch: {item}" for item in self.on_torch]
        lines += [f"  {line}" for line in str(self.recomputation or "").splitlines()]
        return "\n".join(lines)


@short_repr
@dataclass(frozen=True)
class DynamoCompile:
    """One compile of a function by Dynamo.

    Attributes:
        compile_id: its number, such as "0/1".
        function: name, file and line of the function.
        reason: why it was compiled again; empty for the first time.
        failure: why Dynamo gave it up; empty if it did not.
        seconds: the time of all of the compile.
        backend_seconds: the time of AOTAutograd and the backend.
    """

    compile_id: str
    function: str
    reason: str
    failure: str
    seconds: float
    backend_seconds: float

    def __str__(self) -> str:
        why = f": again, since {self.reason}" if self.reason else ""
        failed = f"; given up: {self.failure}" if self.failure else ""
        times = f"{self.seconds:.2f} s, of which {self.backend_seconds:.2f} s in AOTAutograd and the backend"
        return f"{self.compile_id} {self.function}: {times}{why}{failed}"


@short_repr
@dataclass(frozen=True)
class TorchReport:
    """The report of all graphs that `torch.compile` compiled in this process.

    Attributes:
        graphs: the graphs that the backend was given.
        compiles: Dynamo's compiles, the last 64, of any backend.
        graph_breaks: the reasons for which Dynamo cut functions into several graphs, and how often.
    """

    graphs: tuple[GraphRecord, ...]
    compiles: tuple[DynamoCompile, ...]
    graph_breaks: dict[str, int]

    @property
    def recompiles(self) -> tuple[DynamoCompile, ...]:
        """The compiles of functions that were compiled before."""
        return tuple(item for item in self.compiles if item.reason)

    def __str__(self) -> str:
        lines = [quantity(len(self.graphs), "graph"), *map(str, self.graphs)]
        lines += [quantity(len(self.compiles), "compile"), *(f"  {item}" for item in self.compiles)]
        lines += [quantity(sum(self.graph_breaks.values()), "graph break")]
        lines += [f"  {count} x {' '.join(reason.split())}" for reason, count in self.graph_breaks.items()]
        return "\n".join(lines)


_GRAPHS: list[GraphRecord] = []


def add(entry: GraphRecord) -> GraphRecord:
    """Adds a graph to the report."""
    from torch._guards import CompileContext

    found = CompileContext.current_compile_id()
    entry.compile_id = "" if found is None else str(found)
    _GRAPHS.append(entry)
    return entry


class _Before:
    """The compiles and the graph breaks before the last reset, which Dynamo does not forget.

    Attributes:
        compiles: these compiles.
        breaks: numbers of graph breaks by reason.
    """

    compiles: Sequence[Any] = ()
    breaks: Mapping[str, int] = MappingProxyType({})


def reset() -> None:
    """Empties the report, as `torch._dynamo.reset` forgets the code."""
    from torch._dynamo import utils

    _GRAPHS.clear()
    _Before.compiles = tuple(utils.get_compilation_metrics())
    _Before.breaks = MappingProxyType(dict(utils.counters["graph_break"]))


def torch_report() -> TorchReport:
    """Returns the report of the graphs that `torch.compile` compiled in this process, and of what ran where."""
    from torch._dynamo import utils  # the public name must be importable without torch

    before = set(map(id, _Before.compiles))
    compiles = [_compile_of(item) for item in utils.get_compilation_metrics() if id(item) not in before]
    counts = {name: count - _Before.breaks.get(name, 0) for name, count in utils.counters["graph_break"].items()}
    # The counts start again if a program clears Dynamo's counters.
    return TorchReport(tuple(_GRAPHS), tuple(compiles), {name: count for name, count in counts.items() if count > 0})


def _compile_of(metrics: Any) -> DynamoCompile:
    """Reads a record of Dynamo's."""
    return DynamoCompile(
        metrics.compile_id or "",
        f"{metrics.co_name} ({metrics.co_filename}:{metrics.co_firstlineno})",
        _first_line(metrics.recompile_reason),
        _first_line(metrics.fail_reason),
        metrics.entire_frame_compile_time_s or 0.0,
        metrics.backend_compile_time_s or 0.0,
    )


def _first_line(text: str | None) -> str:
    """The first line of a reason, without the code that Dynamo quotes in a comment."""
    return (text or "").strip().partition("\n")[0].partition("  # ")[0].rstrip()
