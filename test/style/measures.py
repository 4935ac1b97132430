"""Prints measures of the architecture, each computed from the code: `python test/style/measures.py`.

Exits with 1 if a measure is out of its bounds. `python test/style/cycles.py` lists the cycles of imports.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import cycles

ROOT = Path(__file__).parents[2]
_OP = "CumulativeOp"
_OPTIONAL = ("DERIVATIVE", "ONNX_FORM")
"""Interfaces that an op may lack in programs for inference."""
_ROUTE = ("driver/route.py", "targets/", "passes/graph/pipelines.py", "lowering/vector_to_llvm/pipelines.py")
_GROUP = re.compile(r'^\[project\.entry-points\."(stepwell\.\w+)"\]', re.MULTILINE)
_FEW, _MOST_LINES = 3, 400


def main() -> int:
    """Prints the table, each measure with its bound; returns 1 if one is out of bounds."""
    none = range(1)
    rows = [
        ("modules outside the route with a sequence of its passes", len(list(_sequences())), none),
        (f"product files that mention {_OP}", len(list(_mentions())), range(1, 7)),
        ("of these, without those of the interfaces of training and of ONNX files", len(list(_needed())), range(1, 5)),
        ("tables keyed by op", len(list(_tables())), none),
        *(
            (f"modules in import cycles, {kind}", count, none)
            for kind, count in zip(cycles.KINDS, _cycles(), strict=True)
        ),
        ("modules at the root beside __init__", len(list(ROOT.glob("*.py"))) - 1, none),
        ("public classes and types that share a name", len(list(_shared_names())), none),
        ("groups of entry points with an example package", len(set(_groups())), range(5, 6)),
        (f"product files of more than {_MOST_LINES} lines", sum(_lines(path) > _MOST_LINES for path in _paths()), none),
        ("lines of Python in the product", sum(map(_lines, _paths())), range(50_000, 10**6)),
    ]
    width = max(len(name) for name, *_ in rows)
    for name, value, bounds in rows:
        wrong = "" if value in bounds else f"  must be from {bounds[0]} to {bounds[-1]}"
        print(f"{name:{width}}  {value}{wrong}")
    return int(any(value not in bounds for _, value, bounds in rows))


@functools.cache
def _paths() -> list[Path]:
    """The files of the product, without the harness of its benchmarks."""
    return [path for path in cycles.modules().values() if path.parts[0] != "bench"]


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _lines(path: Path) -> int:
    return len(_text(path).splitlines())


@functools.cache
def _trees() -> list[tuple[str, ast.Module]]:
    return [(str(path), cycles.parsed(ROOT / path)) for path in _paths()]


def _sequences() -> Iterator[str]:
    """Yields the modules with a tuple or list of several names of passes; a table of single passes is no sequence."""
    for path, tree in _trees():
        if path.startswith(_ROUTE):
            continue
        displays = (node.elts for node in ast.walk(tree) if isinstance(node, ast.Tuple | ast.List))
        if any(sum(map(_is_pass, items)) >= _FEW for items in displays):
            yield path


def _is_pass(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("stepwell-")


def _mentions() -> Iterator[ast.Module]:
    """Yields the modules in which the op is named."""
    for _, tree in _trees():
        if any(_OP in (getattr(node, name, "") for name in ("id", "name", "attr")) for node in ast.walk(tree)):
            yield tree


def _needed() -> Iterator[ast.Module]:
    """Yields the modules in which the op is named, without those that attach an optional interface to it."""
    for tree in _mentions():
        attached = (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
        if not any(text.startswith(_OPTIONAL) and _OP in text and ".attach(" in text for text in attached):
            yield tree


def _tables() -> Iterator[str]:
    """Yields the dictionaries of modules whose keys are several op classes or names of ops."""
    for path, tree in _trees():
        for node in tree.body:
            value = getattr(node, "value", None)
            if isinstance(value, ast.Dict) and sum(map(_is_op, value.keys)) >= _FEW:
                yield f"{path}:{node.lineno}"


def _is_op(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.startswith("stepwell.")
    name = getattr(node, "id", getattr(node, "attr", ""))
    return name.endswith("Op")


def _cycles() -> list[int]:
    files = cycles.modules()
    return [
        sum(map(len, cycles.cycles(cycles.import_graph(files, kinds)))) for kinds in range(1, len(cycles.KINDS) + 1)
    ]


def _shared_names() -> Iterator[str]:
    """Yields the public names of different classes, and of names for types that have different definitions."""
    meanings: defaultdict[str, set[str]] = defaultdict(set)
    for path in cycles.modules().values():
        for node in cycles.parsed(ROOT / path).body:
            if isinstance(node, ast.ClassDef):
                meanings[node.name].add(str(path))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper() and "TypeVar(" not in ast.unparse(node.value):
                    meanings[name].add(ast.unparse(node.value))
    yield from (name for name, found in meanings.items() if len(found) > 1 and not name.startswith("_"))


def _groups() -> Iterator[str]:
    for path in (ROOT / "examples" / "plugins").glob("*/pyproject.toml"):
        yield from _GROUP.findall(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
