"""One reduction from the first run to the record of what came out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from .case import Case, ReduceError
from .failure import Failure
from .folder import RunFolder, new_folder, read_folder
from .mlir_steps import reduce_mlir
from .observe import CompileTest, learnt
from .onnx_graph import count_nodes
from .onnx_steps import reduce_onnx
from .search import Limits, OutOfTime, Search, Test, observed

_SHORTEST, _PATIENCE = 10.0, 4


@dataclass(frozen=True)
class Request:
    """How to reduce.

    Attributes:
        test: what may be wrong with the model.
        match: a regular expression that the failure must match; "" to learn it from the first run.
        limits: what a trial may take.
        jobs: how many trials run at the same time.
        seconds: how long all of it may take; None for as long as it needs.
        parent: where the folder of the reduction is made.
        settings: what is written down of how it was asked for.
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
    """What came out.

    Attributes:
        status: "reduced", "minimal" (nothing could be left out), "out of time" or "interrupted".
        before: how large the model was.
        after: how large it is now.
        failure: how it fails.
        folder: where every step is.
        path: the smallest model.
        command: what shows the failure.
        trials: how many there were.
        accepted: how many of them were taken.
        seconds: how long it took.
    """

    status: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    failure: Failure
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
    """How large a case is: nodes of ONNX or lines of MLIR, and bytes."""
    if case.kind == "onnx":
        return {"nodes": count_nodes(onnx.ModelProto.FromString(case.data)), "bytes": len(case.data)}
    return {"lines": len(case.text.splitlines()), "bytes": len(case.data)}


def once(request: Request, case: Case) -> tuple[Test, list[Failure]]:
    """The failures of a case that are looked for, and the test that tells them best."""
    test = request.test
    if isinstance(test, CompileTest):
        test, found = learnt(test, case, lambda test, case: observed(test, case, request.limits))
    else:
        found = observed(test, case, request.limits)
    return test, [item for item in found if re.search(request.match, item.text)]


def reduce(request: Request, case: Case, progressed: Callable[[Search], None] = lambda search: None) -> Result | None:
    """Shrinks a case while it fails in the same way.

    Args:
        request: how.
        case: what fails.
        progressed: told of every trial.

    Returns:
        What came out; None where the case does not fail.

    Raises:
        ReduceError: it does not fail in the same way each time.
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
        told = again[0].text if again else "nothing"
        raise ReduceError(f"the failure is not the same each time: first {target.text}; then {told}")
    folder = RunFolder(new_folder(request.parent), test)
    folder.begin(request.settings, case, target)
    search = Search(case, target, test, accepts, _limits(request, target, took), request.jobs, start=start)
    return _finish(request, folder, search, case, progressed)


def resume(request: Request, path: Path, progressed: Callable[[Search], None] = lambda search: None) -> Result:
    """Goes on with a reduction where it was interrupted; what was tried is not tried again.

    Raises:
        ReduceError: the folder is none of a reduction, or its last step does not fail any more.
    """
    earlier = read_folder(path)
    start = time.monotonic()
    test, found = once(request, earlier.case)
    accepts = _accepts(request, earlier.original)
    if not any(map(accepts, found)):
        raise ReduceError(f"{path}: the last step does not fail any more: {earlier.failure.text}")
    limits = _limits(request, earlier.original, time.monotonic() - start)
    search = Search(earlier.case, earlier.failure, test, accepts, limits, request.jobs, start=start)
    search.seen, search.accepted = set(earlier.boring), earlier.accepted
    return _finish(request, RunFolder(path, test), search, earlier.first, progressed)


def _accepts(request: Request, target: Failure) -> Callable[[Failure], bool]:
    if request.match:
        return lambda item: re.search(request.match, item.text) is not None
    return target.is_like


def _limits(request: Request, target: Failure, took: float) -> Limits:
    """Smaller models take no longer; a failure that is to have no end must get its time."""
    if target.kind == "time":
        return request.limits
    return replace(request.limits, seconds=min(request.limits.seconds, max(_SHORTEST, _PATIENCE * took)))


def _finish(
    request: Request, folder: RunFolder, search: Search, first: Case, progressed: Callable[[Search], None]
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
