"""Runs ONNX's own backend tests on Stepwell, in child processes that a test may crash.

python test/compat/onnx_backend/suite.py                 # all cases; prints those that are not as expected
python test/compat/onnx_backend/suite.py conv softmax    # those whose names contain one of these; prints each
python test/compat/onnx_backend/suite.py --update        # all; brings the list of expected failures up to date
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import json
import os
import select
import signal
import sys
import time
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).with_name("expected.txt")
ON_HOST = Path(__file__).with_name("on_host.txt")
UNSORTED = "# Not sorted yet"
BY_CHANCE = "random"
"""Start of the reasons of cases that fail only at times."""


@dataclass(frozen=True)
class Outcome:
    """Result of a case.

    Attributes:
        name: name of the case.
        failure: why it failed; empty if it passed.
        on_host: whether ops of its model were not compiled, but computed by their reference.
        seconds: duration of the case.
    """

    name: str
    failure: str = ""
    on_host: bool = False
    seconds: float = 0.0


Case = Callable[[], Any]
"""Runs one test, raises its failure, and returns the compiled model."""


def onnx_cases() -> dict[str, Case]:
    """The cases by name, sorted by name: those that are made in Python or stored, without large models."""
    import stepwell.driver.compile.compilation  # noqa: F401  (once here rather than in every child)
    from onnx.backend.test import BackendTest
    from stepwell.compat.onnx_backend import StepwellBackend

    class Recorder(StepwellBackend):
        """Remembers the model that was compiled last."""

        prepared: Any = None

        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
            cls.prepared = super().prepare(model, device, threads=1)
            return cls.prepared

    def run(test: unittest.TestCase) -> Any:
        Recorder.prepared = None
        test.debug()
        return Recorder.prepared.executable

    cases = {}
    for test in _flat(BackendTest(Recorder, __name__).test_suite):
        kind, name = test.id().split(".")[-2:]
        if "Real" not in kind and name.endswith("_cpu"):
            cases[name[len("test_") : -len("_cpu")]] = functools.partial(run, test)
    return dict(sorted(cases.items()))


@dataclass(frozen=True)
class Suite:
    """Cases by name, run in child processes.

    Attributes:
        cases: the cases by name.
        seconds: maximum duration of one case.
    """

    cases: Mapping[str, Case]
    seconds: float = 120

    @property
    def names(self) -> list[str]:
        return list(self.cases)

    def run(self, names: Sequence[str]) -> Iterator[Outcome]:
        """Runs cases in a child process; a case that kills it has failed, and a new child runs the rest."""
        remaining = list(names)
        while remaining:
            for outcome in self._run_in_child(list(remaining)):
                remaining.remove(outcome.name)
                yield outcome

    def _run_in_child(self, names: Sequence[str]) -> Iterator[Outcome]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._be_child(names, writer)
        os.close(writer)
        done = 0
        with open(reader, "rb", buffering=0) as lines:  # unbuffered: select does not see buffered data
            while done < len(names):
                hangs = not select.select([lines], [], [], self.seconds)[0]
                line = b"" if hangs else lines.readline()
                if not line:
                    break
                done += 1
                yield Outcome(**json.loads(line))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if done < len(names):
            how = f"takes longer than {self.seconds} seconds" if hangs else f"ends the process with {_ending(status)}"
            yield Outcome(names[done], how)

    def _be_child(self, names: Sequence[str], writer: int) -> None:
        faulthandler.disable()  # a case that ends its process is a result; its stacks are not
        try:
            with open(writer, "wb", buffering=0) as lines:
                for name in names:
                    lines.write(json.dumps(asdict(self._run(name))).encode() + b"\n")
                # The parent kills this process: failures at the end of a process are not the fault of a case.
                select.select([], [], [], self.seconds)
        finally:
            os._exit(1)

    def _run(self, name: str) -> Outcome:
        start = time.perf_counter()
        failure, executable = "", None
        try:
            executable = self.cases[name]()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        on_host = bool(getattr(executable, "fallbacks", ()))
        return Outcome(name, failure, on_host, round(time.perf_counter() - start, 3))


def _flat(suite: Iterable[Any]) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestCase):
            yield item
        else:
            yield from _flat(item)


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def read_list(path: Path) -> dict[str, str]:
    """Reads a list of cases: `name: reason` or `name` on each line; comments are ignored."""
    entries = {}
    for line in path.read_text().splitlines():
        name, _, reason = line.partition(":")
        if line and not line.startswith("#"):
            assert name not in entries, f"{path.name} lists {name} twice"
            entries[name] = reason.strip()
    return entries


def one_line(text: str) -> str:
    """Shortens a message to one line of a list."""
    return " ".join(text.split())[:160]


def unexpected(outcomes: Iterable[Outcome]) -> list[str]:
    """Returns the deviations from the lists, in both directions."""
    failing, hosted = read_list(EXPECTED), read_list(ON_HOST)
    found = []
    for outcome in outcomes:
        name = outcome.name
        if outcome.failure and name not in failing:
            found.append(f"{name} fails: {outcome.failure[:600]}")
        if not outcome.failure and name in failing and not failing[name].startswith(BY_CHANCE):
            found.append(f"{name} passes: take it off {EXPECTED.name}")
        if not outcome.failure and name not in failing and outcome.on_host != (name in hosted):
            found.append(f"{name} runs {'partly on the host' if outcome.on_host else 'natively'}: see {ON_HOST.name}")
    return found


def update(outcomes: Sequence[Outcome]) -> None:
    """Brings the lists up to date; reasons stay, new failures come under a heading of their own."""
    failures = {outcome.name: outcome.failure for outcome in outcomes if outcome.failure}
    listed = read_list(EXPECTED)
    kept = [
        line
        for line in EXPECTED.read_text().splitlines()
        if not line or line.startswith("#") or line.partition(":")[0] in failures or f": {BY_CHANCE}" in line
    ]
    fresh = [f"{name}: {one_line(failure)}" for name, failure in failures.items() if name not in listed]
    if fresh:
        kept += ([] if UNSORTED in kept else ["", UNSORTED]) + fresh
    EXPECTED.write_text("\n".join(kept) + "\n")
    comments = [line for line in ON_HOST.read_text().splitlines() if line.startswith("#")]
    failing = read_list(EXPECTED)
    hosted = [outcome.name for outcome in outcomes if outcome.on_host and outcome.name not in failing]
    ON_HOST.write_text("\n".join([*comments, *hosted]) + "\n")


def serve() -> None:
    """Answers requests for cases, one list of names per line; the first line written lists all cases."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the cases must not mix with the answers
    suite = Suite(onnx_cases())
    answers.write(json.dumps(suite.names) + "\n")
    for request in sys.stdin:
        answers.write(json.dumps([asdict(outcome) for outcome in suite.run(json.loads(request))]) + "\n")


def main() -> int:
    """Runs the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--keep", type=Path, help="a file that gets a line of JSON for each case")
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    suite = Suite(onnx_cases())
    chosen = [name for name in suite.names if not options.names or any(part in name for part in options.names)]
    outcomes = []
    for outcome in suite.run(chosen):
        outcomes.append(outcome)
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        if options.names:
            host = " (partly on the host)" if outcome.on_host else ""
            print(f"{outcome.name}: {outcome.failure or 'passes' + host} [{outcome.seconds:.2f} s]", flush=True)
    if options.update:
        update(outcomes)
    found = unexpected(outcomes)
    print("\n".join(found))
    kinds = Counter("failed" if item.failure else "on the host" if item.on_host else "native" for item in outcomes)
    print(dict(kinds), f"{sum(outcome.seconds for outcome in outcomes):.0f} seconds")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
