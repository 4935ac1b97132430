"""A report as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...machines.gpus import SOURCE as PUBLISHED
from ...support.tables import aligned
from ...support.wording import quantity
from ..program import SHORT_NAME
from ..recomputation import Recomputation

_MAX_WIDTH = 48
"""Maximum number of characters of a list of nodes in a table: a choice that leaves room for the other columns."""


def table_of(record: Mapping[str, Any], by_order: bool, rows: int | None) -> str:
    """Returns the text of a report's record."""
    parts = [f"slow: {item['message']}" for item in record["summary"]]
    for program in record["programs"]:
        parts += _program(program, by_order, rows)
    parts += [f"on the host: {item['node']} ({item['op_type']}): {item['reason']}" for item in record["host"]]
    return "\n".join(parts)


def _program(program: Mapping[str, Any], by_order: bool, rows: int | None) -> list[str]:
    peaks, calls = program["peaks"], sum(kernel["calls"] for kernel in program["kernels"])
    shapes = " ".join(f"{item['name']}={'x'.join(map(str, item['shape'])) or 'scalar'}" for item in program["inputs"])
    is_published = peaks["source"] == PUBLISHED
    parts = [
        f"{shapes}: {quantity(len(program['ops']), 'node')} in {quantity(calls, 'call')} of "
        f"{quantity(len(program['kernels']), 'kernel')}, "
        f"{program['flops'] / 1e9:.3g} GFLOP, {program['bytes'] / 1e6:.3g} MB moved",
        f"estimated {_time(program['predicted_seconds'])}, {_device(peaks) if is_published else _cores(program)}",
        "",
        _kernels(program, _columns(program, _GPU_COLUMNS if is_published else _CPU_COLUMNS), by_order, rows),
    ]
    return [
        *parts,
        *_slow_code(program["kernels"]),
        *_versions(program["kernels"], rows),
        *_fates(program["ops"]),
        *_apart(program["ops"], rows),
        *_recomputation(program),
        "",
    ]


def _recomputation(program: Mapping[str, Any]) -> list[str]:
    """Returns what a training step within a budget of memory keeps and computes again; nothing for other programs."""
    plan = program["recomputation"]
    return [] if plan is None else ["", str(Recomputation.read(plan))]


def _slow_code(kernels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each kernel with code other than plain vector code."""
    lines = []
    for kernel in kernels:
        found = [f"{kernel['scalar_share']:.0%} of its work on single elements"] if kernel["scalar_share"] > 0.1 else []
        found += [quantity(kernel["gathers"], "gather")] if kernel["gathers"] else []
        found += [f"{quantity(count, 'call')} of {name}" for name, count in kernel["library_calls"].items()]
        if found:
            lines.append(f"{kernel['name'][:SHORT_NAME]} ({_short(kernel['ops'][0])}): {', '.join(found)}")
    return [""] * bool(lines) + lines


def _versions(kernels: Sequence[Mapping[str, Any]], rows: int | None) -> list[str]:
    """Returns lines for each kernel with versions for different sizes: why, and which sizes run which version."""
    lines, done = [], set()
    for kernel in kernels:
        versions = kernel["sizes"].get("versions", [])
        if not versions or kernel["name"] in done or (rows is not None and len(done) > rows):
            continue
        done.update(item["kernel"] for item in versions)
        lines.append(f"{kernel['name'][:SHORT_NAME]} ({_short(kernel['ops'][0])}): {kernel['sizes']['why']}")
        lines += [f"  {item['kernel'][:SHORT_NAME]}: {item['sizes']} ({item['share']:.0%})" for item in versions]
    return [""] * bool(lines) + lines


def _cores(program: Mapping[str, Any]) -> str:
    peaks, target = program["peaks"], program["target"]
    return (
        f"by the {peaks['source']} peaks of {target['cpu']}: {peaks['flops'] / 1e9:.0f} GFLOP/s and "
        f"{peaks['bandwidth'] / 1e9:.3g} GB/s "
        f"with {quantity(peaks['threads'], 'thread')} of {target['vector_bits']} bits"
    )


def _device(peaks: Mapping[str, Any]) -> str:
    matrices = ", ".join(f"{rate / 1e12:.4g} of {kind}" for kind, rate in peaks["matrix_flops"].items())
    return (
        f"by the published peaks of {peaks['device']}, not measured: {peaks['flops'] / 1e12:.4g} TFLOP/s of "
        f"float32, with tensor cores {matrices}; {peaks['bandwidth'] / 1e9:.4g} GB/s. Launch times are not included"
    )


def _kernels(program: Mapping[str, Any], columns: Sequence[_Column], by_order: bool, rows: int | None) -> str:
    kernels = list(program["kernels"])
    if not by_order:
        kernels.sort(key=lambda kernel: -kernel["predicted_seconds"] * kernel["calls"])
    total = program["predicted_seconds"] or 1.0
    lines = []
    for kernel in kernels[:rows]:
        seconds = kernel["predicted_seconds"] * kernel["calls"]
        lines.append(
            (*(cell(kernel) for _, _, cell in columns), _time(seconds), f"{seconds / total:.0%}", kernel["bound"])
        )
    numbers = [place for place, (_, is_number, _) in enumerate(columns) if is_number]
    numbers += [len(columns), len(columns) + 1]
    text = aligned([*(head for head, _, _ in columns), "est.", "share", "bound"], lines, numbers)
    left = len(kernels) - len(lines)
    return text + (f"\n... and {left} more kernels" if left > 0 else "")


def _layout(kernel: Mapping[str, Any]) -> str:
    names = {"channels_last": "NHWC", "channels_first": "NCHW"}
    layouts = dict.fromkeys(names.get(item["layout"]) or str(item["layout"]) for item in kernel["operands"])
    return "+".join(layout for layout in layouts if layout not in ("row-major", "rows")) or "rows"


def _tile(kernel: Mapping[str, Any]) -> str:
    tiles = kernel["parameters"].get("tiles", [])
    return " ".join(dict.fromkeys("x".join(map(str, tile)) for tile in tiles))


def _block_tile(kernel: Mapping[str, Any]) -> str:
    """Returns the tile of a thread block: rows, columns and depth."""
    sizes = [kernel["parameters"].get(name) for name in ("rows", "columns", "depth")]
    return "x".join(map(str, sizes)) if all(sizes) else ""


_Column = tuple[str, bool, Callable[[Mapping[str, Any]], str]]
"""A column: its head, whether it contains numbers, and its text for a kernel."""
_NAMES: Sequence[_Column] = (
    ("kernel", False, lambda kernel: kernel["name"][:SHORT_NAME]),
    ("class", False, lambda kernel: kernel["class"]),
    ("calls", True, lambda kernel: f"{kernel['calls']}"),
    ("nodes", False, lambda kernel: _short(kernel["ops"][0]) if kernel["ops"] else ""),
    ("layout", False, _layout),
)
_WORK: Sequence[_Column] = (
    ("MFLOP", True, lambda kernel: f"{kernel['flops'] / 1e6:.3g}"),
    ("KB", True, lambda kernel: f"{kernel['bytes'] / 1e3:.3g}"),
    ("FLOP/B", True, lambda kernel: f"{kernel['intensity']:.1f}"),
)
_CPU_COLUMNS: Sequence[_Column] = (
    *_NAMES,
    ("tile", False, _tile),
    ("bits", True, lambda kernel: f"{kernel['vector_bits'] or 'scalar'}"),
    ("blocks", True, lambda kernel: f"{kernel['blocks'][0] if kernel['blocks'] else 1}"),
    *_WORK,
)
_TUNED: _Column = ("tuned", True, lambda kernel: _gain(kernel["tuning"]))
_SIZES: _Column = ("sizes", False, lambda kernel: " ".join(kernel["sizes"]["names"]))
_GPU_COLUMNS: Sequence[_Column] = (
    *_NAMES,
    ("schedule", False, lambda kernel: kernel["schedule"]),
    ("tile", False, _block_tile),
    ("blocks", True, lambda kernel: "+".join(map(str, kernel["blocks"]))),
    ("threads", True, lambda kernel: f"{kernel['threads']}"),
    *_WORK,
)


def _columns(program: Mapping[str, Any], columns: Sequence[_Column]) -> Sequence[_Column]:
    """Returns the columns, with those for sizes that vary, tuned schedules, and facts of another package's device."""
    titles = dict.fromkeys(title for kernel in program["kernels"] for title in kernel["device"])
    if program["bounds"] is not None:
        columns = (*columns, _SIZES)
    if any(kernel["tuning"]["status"] != "default" for kernel in program["kernels"]):
        columns = (*columns, _TUNED)
    return (*columns, *(_device_column(title, program["kernels"]) for title in titles))


def _gain(tuning: Mapping[str, Any]) -> str:
    return f"{tuning['gain']:.2f}x" if "gain" in tuning else ""


def _device_column(title: str, kernels: Sequence[Mapping[str, Any]]) -> _Column:
    values = [kernel["device"][title] for kernel in kernels if title in kernel["device"]]
    is_number = all(isinstance(value, int | float) for value in values)
    return title, is_number, lambda kernel: str(kernel["device"].get(title, ""))


def _fates(ops: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the number of nodes without a kernel of their own, by the reason."""
    counts = Counter((op["fate"], op["by"]) for op in ops if op["fate"] != "kernel")
    lines = [""] if counts else []
    for (fate, by), count in counts.most_common():
        kinds = Counter(op["type"] for op in ops if (op["fate"], op["by"]) == (fate, by))
        named = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common(4))
        lines.append(f"{count} {'nodes' if count > 1 else 'node'}: {fate}{f' by {by}' if by else ''} ({named})")
    return lines


def _apart(ops: Sequence[Mapping[str, Any]], rows: int | None) -> list[str]:
    found = [(op, item) for op in ops for item in op["apart"]]
    lines = [
        f"{_end(op['name'])} ({op['type']}) is not in the kernel of {_end(item['reads'])}: {item['reason']}"
        for op, item in found[:rows]
    ]
    more = len(found) - len(lines)
    return [""] * bool(lines) + lines + ([f"... and {more} more that are not fused"] if more > 0 else [])


def _short(names: Sequence[str]) -> str:
    text = " + ".join(map(_end, names))
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 3]}..."


def _end(name: str) -> str:
    """Returns the end of a long name, which distinguishes it from others."""
    return name if len(name) <= 24 else f"..{name[-22:]}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
