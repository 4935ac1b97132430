"""`Executable.report()`: the fate of each of the model's nodes, and the bound of each kernel.

The record's keys are documented in docs/report.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.errors import ArtefactError
from ...support.short_repr import short_repr
from ...support.wording import quantity
from ..devices.loader import Estimates
from ..devices.registry import loader_of
from ..facts import CompileFacts, NodeFacts
from ..host.fallback import Fallback
from ..program import KernelInfo, Program
from ..remarks import FUSE, INTEGER_PRODUCT, MISSED, NOT_QUANTIZED, READS, Remark
from . import html, slow
from .sizes import sizes_of_kernels
from .text import table_of

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
_ONE_BY_ONE = ("sorting", "selection")
"""Kernel classes whose steps depend on each other, and have no faster form on vectors."""
# Kernels count as slow above this share of scalar operations, this share of a run, and this many seconds.
_MIN_SCALAR_SHARE, _MIN_TIME_SHARE, _MIN_SECONDS = 0.5, 0.1, 5e-5


@short_repr
@dataclass(frozen=True)
class PerformanceReport:
    """A report.

    Attributes:
        model: the model's name.
        threads: number of threads of a call.
        summary: known causes of slowness: `kind`, `message`, `share` of the estimated time.
        programs: a record of each program.
        host: a record of each node on the host.
        remarks: the remarks of all passes, program by program.
    """

    model: str
    threads: int
    summary: Sequence[Mapping[str, Any]]
    programs: Sequence[Mapping[str, Any]]
    host: Sequence[Mapping[str, Any]]
    remarks: Sequence[Remark] = ()

    @staticmethod
    def of(model: str, programs: Sequence[Program], fallbacks: Sequence[Fallback], threads: int) -> PerformanceReport:
        """Makes the report of programs and of the host nodes between them.

        Raises:
            ArtefactError: the compiler's facts about a program are damaged.
        """
        try:
            records = [_program(program, threads) for program in programs]
        except ArtefactError as error:
            raise ArtefactError(f"{model}: {error}") from error
        on_host = [item.record() for item in fallbacks]
        remarks = [remark for program in programs for remark in program.compile_facts.remarks]
        return PerformanceReport(model, threads, _summary(programs, records, fallbacks), records, on_host, remarks)

    @property
    def ops(self) -> list[Mapping[str, Any]]:
        """The nodes of all programs, in the model's order."""
        return [op for program in self.programs for op in program["ops"]]

    @property
    def kernels(self) -> list[Mapping[str, Any]]:
        """The kernels of all programs, ordered by estimated time, the longest first."""
        found = [kernel for program in self.programs for kernel in program["kernels"]]
        return sorted(found, key=lambda kernel: -kernel["predicted_seconds"] * kernel["calls"])

    def record(self) -> dict[str, Any]:
        """Returns the report as a record for JSON."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "threads": self.threads,
            "summary": [dict(item) for item in self.summary],
            "programs": [dict(item) for item in self.programs],
            "host": [dict(item) for item in self.host],
        }

    def text(self, *, by_order: bool = False, rows: int | None = None) -> str:
        """Returns the report as text.

        Args:
            by_order: whether to list kernels in the order of their first call, instead of by estimated time.
            rows: maximum number of kernels and nodes to list; by default all.
        """
        return table_of(self.record(), by_order, rows)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        kernels = [
            (
                item["name"],
                item["class"],
                ", ".join(dict.fromkeys(name for names in item["ops"] for name in names)),
                item["calls"],
                item["bound"],
                f"{item['predicted_seconds'] * item['calls'] * 1e6:.1f}",
            )
            for item in self.kernels
        ]
        columns = ("kernel", "class", "nodes", "calls", "bound by", "estimated µs")
        slow = "".join(html.paragraph(f"slow: {item['message']}") for item in self.summary)
        host = html.table(("on the host", "operator", "reason"), [_host_row(item) for item in self.host])
        title = f"{self.model}: {quantity(len(self.ops), 'node')} in {quantity(len(kernels), 'kernel')}"
        return html.heading(title) + slow + html.table(columns, kernels) + (host if self.host else "")


def slow_kernels(program: Program) -> list[str]:
    """Returns warnings about a program's kernels on single elements, if they take a good part of the time."""
    return [item["message"] for item in _scalar([_program(program, threads=1)])]


def _program(program: Program, threads: int) -> dict[str, Any]:
    known = program.compile_facts
    estimates = loader_of(program.target).estimates(program, known, threads)
    sizes = sizes_of_kernels(program)
    kernels = [_kernel(info, known, estimates, sizes.get(info.name, {})) for info in program.kernels]
    return {
        "target": {"cpu": program.target.cpu, "triple": program.target.triple, "vector_bits": estimates.vector_bits},
        "inputs": [{"name": i.name, "dtype": i.dtype.name, "shape": list(i.shape)} for i in program.inputs],
        "bounds": None
        if program.bounds is None
        else {name: [sizes.low, sizes.high, sizes.step] for name, sizes in program.bounds.ranges.items()},
        "peaks": dict(estimates.peaks),
        "flops": sum(item["flops"] * item["calls"] for item in kernels),
        "bytes": sum(item["bytes"] * item["calls"] for item in kernels),
        "predicted_seconds": sum(item["predicted_seconds"] * item["calls"] for item in kernels),
        "recomputation": None if program.recomputation is None else program.recomputation.record(),
        "ops": _ops(known),
        "remarks": [remark.described() for remark in known.remarks],
        "kernels": kernels,
    }


def _host_row(item: Mapping[str, Any]) -> tuple[str, str, str]:
    return item["node"], item["op_type"], item["reason"]


def _kernel(info: KernelInfo, known: CompileFacts, estimates: Estimates, sizes: Mapping[str, Any]) -> dict[str, Any]:
    details = known.details_of(info.name)
    schedule = dict(details.schedule)
    return {
        "name": info.name,
        "class": info.kind,
        "calls": info.calls,
        "ops": [list(call.nodes) for call in known.calls if call.kernel == info.name] or [list(info.ops)],
        "operands": [operand.record() for operand in known.operands_of(info.name)],
        "schedule": schedule.pop("name", info.schedule),
        "parameters": schedule,
        "flops": info.flops,
        "bytes": info.bytes,
        "intensity": info.flops / info.bytes if info.bytes else 0.0,
        **estimates.describe(info),
        "sizes": sizes,
        "device": dict(details.device),
        "tuning": _tuning(info.name, known),
    }


def _tuning(kernel: str, known: CompileFacts) -> dict[str, Any]:
    found = known.tuned.get(kernel)
    return {"status": "default"} if found is None else {"status": "tuned", **found}


def _ops(known: CompileFacts) -> list[dict[str, Any]]:
    """Returns the nodes, each with the kernels that compute it and the other nodes in them."""
    calls: dict[str, list[int]] = {}
    for position, call in enumerate(known.calls):
        for name in call.nodes:
            calls.setdefault(name, []).append(position)
    about: dict[str, list[Remark]] = {}
    for remark in known.remarks:
        for name in remark.nodes:
            about.setdefault(name, []).append(remark)
    return [_op(node, known, calls, about.get(node.name, ())) for node in known.nodes]


def _op(
    node: NodeFacts, known: CompileFacts, calls: Mapping[str, Sequence[int]], remarks: Sequence[Remark]
) -> dict[str, Any]:
    homes = [node.name, *node.into] if node.fate in ("kernel", "merged") else []
    places = sorted({place for name in homes for place in calls.get(name, ())})
    others = dict.fromkeys(name for place in places for name in known.calls[place].nodes)
    missed = [item for item in remarks if item.kind == MISSED]
    return {
        "name": node.name,
        "type": node.type,
        "outputs": [{"dtype": item.dtype, "shape": list(item.shape)} for item in node.outputs],
        "fate": node.fate,
        "by": node.by,
        "into": list(node.into),
        "kernels": list(dict.fromkeys(known.calls[place].kernel for place in places)),
        "calls": places,
        "with": [name for name in others if name != node.name],
        "apart": [
            {"reads": maker, "reason": item.message}
            for item in missed
            if item.rule == FUSE
            for maker in item.names(READS)
        ],
        "refused": [{"pattern": item.rule, "reason": item.message} for item in missed if item.rule != FUSE],
    }


def _summary(
    programs: Sequence[Program], records: Sequence[Mapping[str, Any]], fallbacks: Sequence[Fallback]
) -> list[dict[str, Any]]:
    """Returns the known causes of slowness."""
    found: list[dict[str, Any]] = []
    found += [{"kind": "generic", "message": message, "share": 1.0} for message in slow.generic_code(programs)]
    found += _scalar(records)
    found += [item for record in records for item in _quantized(record)]
    if fallbacks:
        total = len(fallbacks) + sum(len(record["ops"]) for record in records)
        verb = "runs" if len(fallbacks) == 1 else "run"
        message = f"{len(fallbacks)} of {quantity(total, 'node')} {verb} on the host"
        found.append({"kind": "fallback", "message": message, "share": None})
    return found


def _quantized(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the products with two quantised operands that are not computed on integers, each with the reason."""
    found = {}
    for op in record["ops"]:
        for remark in op["refused"]:
            if remark["pattern"] == INTEGER_PRODUCT and not remark["reason"].endswith(NOT_QUANTIZED):
                seconds = sum(
                    kernel["predicted_seconds"] for kernel in record["kernels"] if kernel["name"] in op["kernels"]
                )
                message = f"{op['name']} multiplies floats, though it could multiply bytes: {remark['reason']}"
                found[message] = {
                    "kind": "quantized",
                    "message": message,
                    "share": seconds / (record["predicted_seconds"] or 1.0),
                }
    return list(found.values())


def _scalar(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns a warning for each program whose mostly scalar kernels take a good part of the time."""
    found = []
    for record in records:
        scalar = [
            kernel
            for kernel in record["kernels"]
            if kernel["scalar_share"] > _MIN_SCALAR_SHARE and kernel["class"] not in _ONE_BY_ONE
        ]
        seconds = sum(item["predicted_seconds"] * item["calls"] for item in scalar)
        share = seconds / (record["predicted_seconds"] or 1.0)
        if share <= _MIN_TIME_SHARE or seconds < _MIN_SECONDS:
            continue
        nodes = list(dict.fromkeys(name for kernel in scalar for names in kernel["ops"] for name in names))
        named = ", ".join(nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        verb = "computes" if len(scalar) == 1 else "compute"
        slowly = f"{quantity(len(scalar), 'kernel')} ({named}) {verb} single elements rather than vectors"
        message = f"{slowly}: about {share:.0%} of the time"
        found.append({"kind": "scalar", "message": message, "share": share})
    return found
