"""Compiles and runs mutants in sequence, and reports the outcome of each to `run.py`, which supervises it.

    python worker.py KIND FIRST STEP LAST SECONDS

A line "start N" comes before each, a line "done N WORD" after it: `ran`, `refused` by one of the package's own errors,
or `failed` with an unexpected exception.
"""

from __future__ import annotations

import gc
import importlib
import json
import resource
import signal
import sys
import traceback
import warnings

import stepwell

MEMORY = 4 << 30
"""Memory limit of a mutant in bytes, relative to before; no mutant is larger than some kilobytes."""

ADDRESS_SPACE = 6 << 30
"""Maximum address space of the process in bytes: larger requests must be reported as out of memory."""

ERRORS = tuple(
    item
    for item in (getattr(stepwell, name) for name in stepwell.__all__)
    if isinstance(item, type) and issubclass(item, Exception)
)


def outcome(kind: str, number: int) -> tuple[str, str]:
    """Returns the outcome of a mutant: a word, and the reason."""
    data = importlib.import_module(f"{kind}_mutants").mutant(number)
    target = importlib.import_module(f"{kind}_target")
    try:
        target.run(data)
    except ERRORS as error:
        message = str(error)
        return (
            ("refused", getattr(error, "why", type(error).__name__))
            if message.strip()
            else ("failed", f"{type(error)} without a message")
        )
    except RecursionError as error:
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    except Exception:
        return "failed", "".join(traceback.format_exc().splitlines(keepends=True)[-14:])
    return "ran", ""


def main(kind: str, first: int, step: int, last: int, seconds: int) -> None:
    """Tries every `step`-th mutant from `first` up to `last`; the process ends at one that computes for `seconds`."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, last, step):
        print(json.dumps(["start", number]), flush=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        word, reason = outcome(kind, number)
        gc.collect()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if word != "failed" and (peak - before) << 10 > MEMORY:
            word, reason = "failed", f"took {(peak - before) >> 10} MB of memory"
        print(json.dumps(["done", number, word, reason]), flush=True)
        before = max(before, peak)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
