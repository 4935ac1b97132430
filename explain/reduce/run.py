"""One reduction, from the first run to its record."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from .case import Case, ReduceError
from .failure import FailureSignature
from .folder import RunFolder, new_folder, read_folder
from .mlir_steps import reduce_mlir
from .observe import CompileTest, learnt
from .onnx_graph import count_nodes
from .onnx_steps import reduce_onnx
from .search import Limits, OutOfTime, Search, Test, observed

_MIN_SECONDS, _TIME_FACTOR = 10.0, 4
"""Least time limit of further trials in seconds, and limit relative to the time of the first failure: choices."""


@dataclass(frozen=True)
class ReductionRequest:
    """Settings of a reduction.

    Attributes:
        test: the test that the model fails.
        match: a regular expression that the failure must match; "" to keep the failure of the first run.
        limits: the limits of a trial.
        jobs: number of concurrent trials.
        seconds: time limit of the whole reduction; None for no limit.
        parent: the parent of the reduction's folder.
        settings: the settings to store in the folder.
    """

    test: Test
    match: str = ""
    limits: Limits = field(default_factory=lambda: Limits(300, 8192))
    jobs: int = 1
    seconds: float | None = None
    parent: Path = Path(".")
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of a reduction.

    Attributes:
        status: "reduced", "minimal" (nothing could be left out), "out of time" or "interrupted".
        before: initial size of the model.
        after: final size of the model.
        failure: the failure of the reduced model.
        folder: the folder of all steps.
        path: the smallest model.
        command: a command that reproduces the failure.
        trials: number of trials.
        accepted: number of accepted trials.
        seconds: duration in seconds.
    """

    status: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    failure: FailureSignature
    folder: Path
    path: Path
    command: str
    trials: int
    accepted: int
    seconds: float

    def record(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "schema": 1,
            "status": self.status,
            "before": dict(self.before),
            "after": dict(self.after),
            "failure": self.failure.record(),
            "folder": str(self.folder),
            "path": str(self.path),
            "command": self.command,
            "trials": self.trials,
            "accepted": self.accepted,
            "seconds": round(self.seconds, 3),
        }


def size_of(case: Case) -> dict[str, int]:
    """Returns the size of a case: nodes of ONNX or lines of MLIR, and bytes."""
    if case.kind == "onnx":
        return {"nodes": count_nodes(onnx.ModelProto.FromString(case.data)), "bytes": len(case.data)}
    return {"lines": len(case.text.splitlines()), "bytes": len(case.data)}


def once(request: ReductionRequest, case: Case) -> tuple[Test, list[FailureSignature]]:
    """Returns a test that identifies the failures of a case, and those failures that match the request."""
    test = request.test
    if isinstance(test, CompileTest):
        test, found = learnt(test, case, lambda test, case: observed(test, case, request.limits))
    else:
        found = observed(test, case, request.limits)
    return test, [item for item in found if re.search(request.match, item.text)]


def reduce(
    request: ReductionRequest, case: Case, progressed: Callable[[Search], None] = lambda search: None
) -> Result | None:
    """Shrinks a case while it fails in the same way.

    Args:
        request: the settings.
        case: the failing case.
        progressed: called after every trial.

    Returns:
        The result; None if the case does not fail.

    Raises:
        ReduceError: the failure differs between runs.
    """
    start = time.monotonic()
    test, found = once(request, case)
    if not found:
        return None
    took = time.monotonic() - start
    target = found[0]
    accepts = _accepts(request, target)
    again = observed(test, case, request.limits)
    if not any(map(accepts, again)):
        later = again[0].text if again else "nothing"
        raise ReduceError(f"the failure differs between runs: first {target.text}; then {later}")
    folder = RunFolder(new_folder(request.parent), test)
    folder.begin(request.settings, case, target)
    search = Search(case, target, test, accepts, _limits(request, target, took), request.jobs, start=start)
    return _finish(request, folder, search, case, progressed)


def resume(request: ReductionRequest, path: Path, progressed: Callable[[Search], None] = lambda search: None) -> Result:
    """Continues an interrupted reduction; cases that were tried are not tried again.

    Raises:
        ReduceError: the folder is not that of a reduction, or its last step no longer fails.
    """
    earlier = read_folder(path)
    start = time.monotonic()
    test, found = once(request, earlier.case)
    accepts = _accepts(request, earlier.original)
    if not any(map(accepts, found)):
        raise ReduceError(f"{path}: the last step no longer fails: {earlier.failure.text}")
    limits = _limits(request, earlier.original, time.monotonic() - start)
    search = Search(earlier.case, earlier.failure, test, accepts, limits, request.jobs, start=start)
    search.seen, search.accepted = set(earlier.boring), earlier.accepted
    return _finish(request, RunFolder(path, test), search, earlier.first, progressed)


def _accepts(request: ReductionRequest, target: FailureSignature) -> Callable[[FailureSignature], bool]:
    if request.match:
        return lambda item: re.search(request.match, item.text) is not None
    return target.is_like


def _limits(request: ReductionRequest, target: FailureSignature, took: float) -> Limits:
    """Returns the limits of further trials: smaller models take less time, unless the failure is a timeout."""
    if target.kind == "time":
        return request.limits
    return replace(request.limits, seconds=min(request.limits.seconds, max(_MIN_SECONDS, _TIME_FACTOR * took)))


def _finish(
    request: ReductionRequest, folder: RunFolder, search: Search, first: Case, progressed: Callable[[Search], None]
) -> Result:
    search.took, search.boring, search.broken, search.progressed = folder.took, folder.boring, folder.broken, progressed
    if request.seconds is not None:
        search.deadline = search.start + request.seconds
    search.seen.add(search.case.digest)
    status = ""
    try:
        {"onnx": reduce_onnx, "mlir": reduce_mlir}[first.kind](search)
    except OutOfTime:
        status = "out of time"
    except KeyboardInterrupt:
        status = "interrupted"
    path = folder.write("best", search.case)
    return Result(
        status or ("reduced" if search.accepted else "minimal"),
        size_of(first),
        size_of(search.case),
        search.failure,
        folder.path,
        path,
        search.test.command(str(path), search.case),
        search.trials,
        search.accepted,
        time.monotonic() - search.start,
    )
