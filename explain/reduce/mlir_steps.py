"""Reduction steps for an MLIR module and the pipeline that fails on it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlir import ir

from ...dialects.verifier import violations
from ...passes.infra.diagnostics import MLIRError
from ...passes.infra.elements import Nested, PassElement
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.runner import PassFailure
from . import mlir_edits
from .case import Case
from .observe import PassesTest, context_for_passes
from .search import Edit, Search, minimise

_LARGE_CONSTANT = 200
"""Number of characters beyond which a constant is replaced: one or two lines of the module."""
_SIZE = re.compile(r"(?<![\w.])\d+(?=x)")


def reduce_mlir(search: Search) -> None:
    """Reduces the module and the pipeline until a whole round finds nothing."""
    _from_the_failing_pass(search)
    while True:
        before = search.accepted
        for step in (_passes, _functions, _ops, _results, _arguments, _bodies, _attributes, _constants, _sizes, _lines):
            step(search)
        if search.accepted == before:
            break
    _without_locations(search)


def _allows_unregistered(search: Search) -> bool:
    return isinstance(search.test, PassesTest) and search.test.allows_unregistered


def _edit(search: Search, what: str, change: Callable[[ir.Module], bool]) -> Edit:
    """Creates a candidate from a change of the module; invalid results are discarded."""
    base, allows = search.case, _allows_unregistered(search)

    def make() -> Case | None:
        with context_for_passes(allows), ir.Location.unknown():
            try:
                module = ir.Module.parse(base.text)
            except MLIRError:
                return None  # parsing itself fails, so only lines can be left out
            if not change(module):
                return None
            return _printed(base, module)

    return Edit(what, make)


def _printed(base: Case, module: ir.Module) -> Case | None:
    try:
        module.operation.verify()
    except MLIRError:
        return None
    if any(True for _ in violations(module.operation)):
        return None
    text = str(module.operation.get_asm(enable_debug_info="loc(" in base.text))
    return replace(base, data=(text.rstrip() + "\n").encode())


def _listed(search: Search, look: Callable[[list[ir.Operation]], list]) -> list:
    """Runs `look` on the ops of the module in a child process."""
    case, allows = search.case, _allows_unregistered(search)

    def work() -> list:
        with context_for_passes(allows):
            try:
                module = ir.Module.parse(case.text)  # keeps the ops alive
            except MLIRError:
                return []  # parsing itself fails
            return look(mlir_edits.ops_of(module))

    return search.ask(work) or []


def _from_the_failing_pass(search: Search) -> None:
    """Starts from the module before the failing element of the pipeline, and keeps only that element."""
    if not search.case.pipeline:
        return
    case, allows = search.case, _allows_unregistered(search)
    pipeline = Pipeline.parse(case.pipeline)
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before.mlir"

        def work() -> None:
            with context_for_passes(allows):
                module = ir.Module.parse(case.text)
                for index, element in enumerate(pipeline.elements):
                    text = str(module.operation.get_asm(enable_debug_info="loc(" in case.text))
                    before.write_text(f"{index}\n{text}")
                    try:
                        Pipeline([element], pipeline.anchor).run(module)
                    except PassFailure:
                        return

        search.ask(work)
        if not before.exists():
            return
        index, _, text = before.read_text().partition("\n")
    rest = Pipeline([pipeline.elements[int(index)]], pipeline.anchor)
    candidate = replace(case, data=text.encode(), pipeline=str(rest))
    if int(index) > 0:
        search.first([Edit("from-the-failing-pass", lambda: candidate)])


def _passes(search: Search) -> None:
    """Leaves passes out of the pipeline."""
    if not search.case.pipeline:
        return
    base = search.case
    pipeline = Pipeline.parse(base.pipeline)
    count = len(_flat(pipeline.elements, ()))

    def build(kept: list[int]) -> Callable[[], Case | None]:
        names = _nested(pipeline.elements, set(kept))
        return lambda: replace(base, pipeline=str(Pipeline(names, pipeline.anchor)))

    if count > 1:
        minimise(search, "passes", range(count), build)


def _flat(elements: tuple[PassElement, ...], path: tuple[str, ...]) -> list[tuple[tuple[str, ...], PassElement]]:
    found = []
    for element in elements:
        if isinstance(element, Nested):
            found += _flat(element.elements, (*path, element.anchor))
        else:
            found.append((path, element))
    return found


def _nested(elements: tuple[PassElement, ...], kept: set[int], start: int = 0) -> list[PassElement]:
    """Returns the elements with only the `kept` passes, numbered as in `_flat`."""
    found: list[PassElement] = []
    for element in elements:
        if isinstance(element, Nested):
            inner = _nested(element.elements, kept, start)
            start += len(_flat(element.elements, ()))
            found += [Nested(element.anchor, inner)] if inner else []
            continue
        found += [element] if start in kept else []
        start += 1
    return found


def _functions(search: Search) -> None:
    """Removes top-level functions and globals that nothing else needs."""
    base = replace(search)
    places = _listed(search, lambda ops: [index for index, op in enumerate(ops) if _is_outermost(op)])

    def build(kept: list[int]) -> Callable[[], Case | None]:
        gone = set(places) - set(kept)
        return _edit(base, "", lambda module: mlir_edits.take_out(module, gone, "operand")).make

    if len(places) > 1:
        minimise(search, "functions", places, build)


def _is_outermost(op: ir.Operation) -> bool:
    parent = op.parent
    return parent is not None and parent.operation.parent is None


def _ops(search: Search) -> None:
    """Removes ops, beginning with halves of the module."""
    for way in ("operand", "argument", "constant"):
        base = replace(search)
        places = _listed(search, lambda ops: [index for index, op in enumerate(ops) if not mlir_edits.is_last(op)])

        def build(kept: list[int], base: Search = base, places: list[int] = places, way: str = way):
            gone = set(places) - set(kept)
            return _edit(base, "", lambda module: mlir_edits.take_out(module, gone, way)).make

        minimise(search, f"ops-{way}", places, build)


def _results(search: Search) -> None:
    """Removes results of functions."""
    found = _listed(
        search,
        lambda ops: [
            (index, len(ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results))
            for index, op in enumerate(ops)
            if op.name == "func.func"
        ],
    )
    for index, count in found:
        base = replace(search)

        def build(kept: list[int], base: Search = base, index: int = index):
            return _edit(base, "", lambda module: mlir_edits.drop_results(module, index, kept)).make

        minimise(search, "results", range(count), build)


def _arguments(search: Search) -> None:
    """Removes unused arguments of functions."""
    found = _listed(search, lambda ops: [index for index, op in enumerate(ops) if op.name == "func.func"])
    for index in found:
        search.first(
            [_edit(search, "arguments", lambda module, index=index: mlir_edits.drop_unused_arguments(module, index))]
        )


def _bodies(search: Search) -> None:
    """Replaces ops by their bodies, and branches by one of their successors."""
    while True:
        bodies = _listed(search, lambda ops: _numbered(ops, lambda op: len(op.regions)))
        branches = _listed(search, lambda ops: _numbered(ops, lambda op: len(op.successors)))
        edits = [
            _edit(search, f"unwrap-{name}", lambda module, at=(index, body): mlir_edits.unwrap(module, *at))
            for index, body, name in bodies
        ]
        edits += [
            _edit(search, "follow", lambda module, at=(index, choice): mlir_edits.follow(module, *at))
            for index, choice, _ in branches
        ]
        if search.first(edits) is None:
            return


def _numbered(ops: list[ir.Operation], count: Callable[[ir.Operation], int]) -> list[tuple[int, int, str]]:
    """Returns the index of each op with each number below its `count`, and its name."""
    return [(index, number, op.name) for index, op in enumerate(ops) for number in range(count(op))]


def _attributes(search: Search) -> None:
    """Drops attributes, beginning with those of the module."""
    while True:
        found = _listed(search, _attributes_of)
        edits = [
            _edit(search, f"drop-{name}", lambda module, key=(index, name): mlir_edits.drop_attribute(module, *key))
            for index, name in found
        ]
        if search.first(edits) is None:
            return


def _attributes_of(ops: list[ir.Operation]) -> list[tuple[int | None, str]]:
    found: list[tuple[int | None, str]] = []
    if ops and ops[0].parent is not None:
        found += [(None, name) for name in ops[0].parent.operation.attributes]
    return found + [(index, name) for index, op in enumerate(ops) for name in op.attributes]


def _constants(search: Search) -> None:
    """Replaces large constants by zeros."""
    while True:
        found = _listed(
            search,
            lambda ops: [
                (index, name)
                for index, op in enumerate(ops)
                for name in op.attributes
                if str(op.attributes[name]).startswith("dense") and len(str(op.attributes[name])) > _LARGE_CONSTANT
            ],
        )
        edits = [
            _edit(search, "zeros", lambda module, key=(index, name): mlir_edits.splat(module, *key))
            for index, name in found
        ]
        if search.first(edits) is None:
            return


def _sizes(search: Search) -> None:
    """Reduces the sizes in types, at every occurrence of the same number in the text."""
    while True:
        sizes = sorted({int(text) for text in _SIZE.findall(search.case.text)} - {0, 1}, reverse=True)
        edits = [
            Edit(f"size-{size}-to-{smaller}", _resized(search, size, smaller, everywhere))
            for size in sizes
            for smaller in sorted({1, 2, size // 2})
            if 0 < smaller < size
            for everywhere in (False, True)
        ]
        if search.first(edits) is None:
            return


def _resized(search: Search, size: int, smaller: int, everywhere: bool) -> Callable[[], Case | None]:
    pattern = rf"(?<![\w.]){size}(?![\w.])|(?<![\w.]){size}(?=x)" if everywhere else rf"(?<![\w.]){size}(?=x)"
    text = re.sub(pattern, str(smaller), search.case.text)
    # The second and later sizes in a shape do not start a word: `4x4xf32`.
    text = re.sub(rf"(?<=\dx){size}(?=x)", str(smaller), text)
    changed = replace(search.case, data=text.encode())
    return _edit(replace(search, case=changed), "", lambda module: True).make


def _lines(search: Search) -> None:
    """Leaves lines of the text out; text that is no longer MLIR is discarded, unless parsing is what fails."""
    base = search.case
    lines = base.text.splitlines(keepends=True)
    is_mlir = _edit(search, "", lambda module: True)

    def build(kept: list[int]) -> Callable[[], Case | None]:
        case = replace(base, data="".join(lines[index] for index in kept).encode())
        if search.ask(is_mlir.make) is None:
            return lambda: case
        return _edit(replace(search, case=case), "", lambda module: True).make

    minimise(search, "lines", range(len(lines)), build)


def _without_locations(search: Search) -> None:
    case = search.case

    def make() -> Case | None:
        with context_for_passes(_allows_unregistered(search)):
            try:
                module = ir.Module.parse(case.text)
            except MLIRError:
                return None
            return replace(case, data=(str(module).rstrip() + "\n").encode())

    if "loc(" in case.text:
        search.first([Edit("without-locations", make)])
