"""The folder of one reduction: every accepted step, its command, and a log; earlier folders are not changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .case import Case, ReduceError
from .failure import FailureSignature
from .search import ReductionStep, Test

_LOG, _RUN = "log.jsonl", "run.json"


def new_folder(parent: Path) -> Path:
    """Creates the first of `reduce-1`, `reduce-2`, ... that does not exist."""
    number = 1
    while True:
        folder = parent / f"reduce-{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1


@dataclass(frozen=True)
class RunFolder:
    """The output folder of a reduction.

    Attributes:
        path: the folder.
        test: provides the commands.
    """

    path: Path
    test: Test

    def begin(self, settings: Mapping[str, Any], case: Case, failure: FailureSignature) -> None:
        """Writes the settings, and the initial case and its failure as step 0."""
        (self.path / _RUN).write_text(json.dumps({"schema": 1, **settings}, indent=2) + "\n")
        self.took(ReductionStep(0, "input", case, failure, 0.0))

    def took(self, step: ReductionStep) -> None:
        """Writes an accepted step."""
        name = re.sub(r"[^\w.-]+", "-", step.what)
        file = self.write(f"{step.number:03d}-{name}", step.case)
        self._log(
            step=step.number,
            what=step.what,
            file=file.name,
            bytes=len(step.case.data),
            seconds=round(step.seconds, 3),
            failure=asdict(step.failure),
            pipeline=step.case.pipeline,
            shapes={name: list(shape) for name, shape in step.case.shapes.items()},
            command=self.test.command(file.name, step.case),
        )

    def boring(self, digest: str, what: str) -> None:
        """Logs a case without the same failure, so that it is not tried again."""
        self._log(boring=digest, what=what)

    def broken(self, what: str, output: str) -> None:
        """Logs a candidate whose construction failed, with the traceback."""
        self._log(broken=what, output=output)

    def write(self, name: str, case: Case) -> Path:
        """Writes a case to a file."""
        file = self.path / f"{name}.{case.kind}"
        file.write_bytes(case.data)
        return file

    def _log(self, **entry: Any) -> None:
        with open(self.path / _LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")


@dataclass(frozen=True)
class Earlier:
    """The state of an interrupted reduction."""

    settings: dict[str, Any]
    first: Case
    case: Case
    failure: FailureSignature
    original: FailureSignature
    accepted: int
    boring: set[str]


def read_settings(folder: Path) -> dict[str, Any]:
    """Reads the settings of a reduction.

    Raises:
        ReduceError: the folder is not that of a reduction.
    """
    try:
        return json.loads((folder / _RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReduceError(f"{folder}: not the folder of a reduction: {error}") from error


def read_folder(folder: Path) -> Earlier:
    """Reads the last step of a reduction, and the cases that it has tried.

    Raises:
        ReduceError: the folder is not that of a reduction.
    """
    settings = read_settings(folder)
    try:
        lines = (folder / _LOG).read_text(encoding="utf-8").splitlines()
        # The last line may be truncated.
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        steps = [entry for entry in entries if "step" in entry]
        cases = [_case(folder, entry) for entry in (steps[0], steps[-1])]
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise ReduceError(f"{folder}: the log of the reduction cannot be read: {error}") from error
    boring = {entry["boring"] for entry in entries if "boring" in entry}
    failures = [FailureSignature(**entry["failure"]) for entry in (steps[0], steps[-1])]
    return Earlier(settings, cases[0], cases[1], failures[1], failures[0], steps[-1]["step"], boring)


def _case(folder: Path, entry: Mapping[str, Any]) -> Case:
    file = folder / entry["file"]
    shapes = {name: tuple(shape) for name, shape in entry["shapes"].items()}
    return Case(file.suffix[1:], file.read_bytes(), entry["pipeline"], shapes)
