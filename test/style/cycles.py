"""Finds cycles of modules that import each other, by imports of any kind: `python test/style/cycles.py`.

Prints three numbers of modules in cycles: by imports at the top of modules; with those inside functions too; and with
those for types only (`if TYPE_CHECKING`) too. Lists the cycles, and exits with 1 if there are any.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "stepwell"
KINDS = ("at the top", "in functions", "for types")
_OUTSIDE = ("distribution", "docs", "examples", "test")
"""Folders that are no part of the package."""

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """Returns the path of every module of the package, by name."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [Path(name) for name in names if not name.startswith(_OUTSIDE) and (ROOT / name).exists()]
    return {
        ".".join([PACKAGE, *(part for part in path.with_suffix("").parts if part != "__init__")]): path
        for path in paths
    }


def import_graph(files: Mapping[str, Path], kinds: int = len(KINDS)) -> dict[str, set[str]]:
    """Returns the modules that each module imports.

    Args:
        files: the path of every module below `ROOT`, by name.
        kinds: how many of `KINDS`, which are counted in this order.
    """
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        statements = [node for kind, node in _imports_of(ROOT / path) if kind < kinds]
        found = {target for node in statements for target in _targets(node, package, files)}
        graph[name] = found - {name}
    return graph


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _imports_of(path: Path) -> list[tuple[int, ast.Import | ast.ImportFrom]]:
    return list(_imports(parsed(path), 0))


def _imports(node: ast.AST, kind: int) -> Iterator[tuple[int, ast.Import | ast.ImportFrom]]:
    """Yields the import statements inside a node, each with the place of its kind in `KINDS`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # most nodes
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield kind, child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(child, 2)
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, max(kind, 1) if is_function else kind)


def _targets(node: ast.Import | ast.ImportFrom, package: str, files: Mapping[str, Path]) -> Iterator[str]:
    """Yields the modules that a statement in a package imports."""
    if isinstance(node, ast.Import):
        yield from (item.name for item in node.names if item.name in files)
        return
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    for item in node.names:
        inner = f"{module}.{item.name}"
        if inner in files or module in files:
            yield inner if inner in files else module


def cycles(graph: Graph) -> list[list[str]]:
    """Returns the strongly connected components of two modules or more (Tarjan's algorithm), the largest first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                found.append(sorted(members))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(graph)))
    for name in sorted(graph):
        if name not in order:
            visit(name)
    return sorted(found, key=len, reverse=True)


def main() -> int:
    """Prints the figures and the cycles; returns 1 if there are any."""
    files, found = modules(), []
    for count, kind in enumerate(KINDS, 1):
        found = cycles(import_graph(files, count))
        print(f"modules in cycles, with imports {kind}: {sum(map(len, found))} in {len(found)} cycles")
    for members in found:
        print(f"\n{len(members)} modules:", *members, sep="\n  ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
