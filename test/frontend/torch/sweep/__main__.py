"""Counts how entries of PyTorch's own test databases compile: `python test/frontend/torch/sweep --help`.

Each process runs entries one after another; another one takes its place after a crash, a timeout or 40 entries.
"""

import argparse
import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep.comparison import OUTCOMES, Result, compared
from sweep.entries import entries

ROUTES = ("export", "compile", "gradients")
_ENTRIES_PER_PROCESS = 40


def main() -> None:
    """Runs the entries and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="regular expressions of names of entries, such as op/add; default: all")
    parser.add_argument("--route", choices=ROUTES, action="append", help="default: export and compile")
    parser.add_argument("--samples", type=int, default=2, help="for each element type of an op (default: 2)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=240, help="seconds for one entry")
    parser.add_argument("--output", type=Path, help="a file for the results, one line of JSON each")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return _serve(arguments.samples)
    wanted = [re.compile(text) for text in arguments.only]
    names = [entry.name for entry in entries(arguments.samples)]
    chosen = [name for name in names if not wanted or any(item.fullmatch(name) for item in wanted)]
    routes = arguments.route or ROUTES[:2]
    batches = [
        [(name, route) for name in chosen[start : start + _ENTRIES_PER_PROCESS]]
        for start in range(0, len(chosen), _ENTRIES_PER_PROCESS)
        for route in routes
    ]
    output = open(arguments.output, "a", buffering=1) if arguments.output else None  # noqa: SIM115
    found = []
    with ThreadPoolExecutor(arguments.processes) as pool:
        for batch in pool.map(lambda batch: _run(batch, arguments.samples, arguments.timeout, output), batches):
            found += batch
    _print(found, routes)


def _run(batch, samples, timeout, output):
    """Runs entries in processes of their own; returns the results."""
    found, child = [], None
    for name, route in batch:
        child = child or _start(samples)
        start = time.monotonic()
        child.stdin.write(json.dumps([name, route]) + "\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], timeout)
        line = child.stdout.readline() if ready else ""
        if line:
            result = Result(**json.loads(line))
        else:
            child.kill()
            reason = f"the process ended with {child.wait()}" if ready else f"no result after {timeout:g} s"
            result, child = Result(name, route, "crash", [reason]), None
        result.seconds = round(time.monotonic() - start, 2)
        found.append(result)
        if output:
            output.write(json.dumps(result.record()) + "\n")
    if child:
        child.stdin.close()
        child.wait()
    return found


def _start(samples):
    command = [sys.executable, __file__, "--child", "--samples", str(samples)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _serve(samples):
    """Reads entries from stdin and writes results to stdout, on which nothing else is printed."""
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    known = {entry.name: entry for entry in entries(samples)}
    for line in sys.stdin:
        name, route = json.loads(line)
        try:
            result = compared(known[name], route)
        except Exception as error:  # samples that cannot be made or compared
            result = Result(name, route, "crash", [f"{type(error).__name__}: {error}"])
        results.write(json.dumps(result.record()) + "\n")


def _print(found, routes):
    for result in found:
        if result.outcome not in ("native", "no samples"):
            print(f"{result.outcome}: {result.name} by {result.route}: {'; '.join(result.reasons)}")
    print("\n| entries | route | " + " | ".join(OUTCOMES) + " |")
    print("|---" * (2 + len(OUTCOMES)) + "|")
    for kind in dict.fromkeys(result.name.partition("/")[0] for result in found):
        for route in routes:
            of_kind = [item for item in found if item.name.startswith(f"{kind}/") and item.route == route]
            counts = Counter(item.outcome for item in of_kind)
            print(f"| {kind} ({len(of_kind)}) | {route} | " + " | ".join(str(counts[item]) for item in OUTCOMES) + " |")


if __name__ == "__main__":
    main()
