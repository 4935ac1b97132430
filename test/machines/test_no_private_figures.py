"""Passes and schedules take the figures of a machine from `machines`, and have none of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("passes", "lowering", "driver", "explain", "runtime/devices", "dialects", "targets")

# Speeds, clocks, times, sizes of caches, and widths of registers and memory banks, by their names.
FIGURE = re.compile(
    r"_?(?:.*_)?(?:CACHE_BYTES|CACHED_BYTES|CLOCK|GHZ|GFLOPS|FLOPS_PER_\w+|BYTES_PER_(?:US|NS|CYCLE|SECOND)|BANDWIDTH|CYCLES"
    r"|STREAM_BYTES|WEIGHT_BYTES|MULTIPLY_ADDS|TRANSFORMED|TRANSPOSED|NS"
    r"|WARP|VECTOR_BYTES|ACCESS_BYTES|BANKS?|BANKS?_BYTES)"
)

POLICIES = {
    # A loop, with its code, must save as much.
    ("passes/kernel/split_batches.py", "_LEAST_NS"),
    # Time for which waiting threads watch for work before they sleep.
    ("lowering/vector_to_llvm/thread_pool.py", "_RECENT_NS"),
    # Flops per moved element from which rows are packed, a ratio.
    ("passes/graph/packing/pack_rows.py", "_FLOPS_PER_ELEMENT"),
}
"""Constants with such names that are no figures of a machine."""


def constants(path: Path) -> Iterator[str]:
    """Yields the names of the numbers that a module defines at its top level."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Assign):
            (target,) = node.targets[:1]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            pairs = list(zip(names, values, strict=False))
        else:
            continue
        for target, value in pairs:
            numbers = [item for item in ast.walk(value) if isinstance(item, ast.Constant)]
            is_derived = any(isinstance(item, ast.Name) for item in ast.walk(value))
            if (
                isinstance(target, ast.Name)
                and numbers
                and not is_derived
                and all(isinstance(item.value, int | float) for item in numbers)
            ):
                yield target.id


def test_no_room_has_figures_of_a_machine() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for name in constants(path)
        if FIGURE.fullmatch(name)
    }
    assert found == POLICIES


def test_figures_are_recognised(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("_CYCLES, _NAME = 2.6, 'x'\n_FLOPS_PER_US: float = 1e5\n_CACHE_BYTES = 32 * 1024\n_ROWS = 16\n")
    names = list(constants(module))
    assert [name for name in names if FIGURE.fullmatch(name)] == ["_CYCLES", "_FLOPS_PER_US", "_CACHE_BYTES"]
