"""Tries mutants of a kind: no file may crash the package, hang it, or raise an exception that is not one of its errors.

Mutants of the kinds `graph`, `ranges` and `symbols` are not broken files but random programs, which must compile and
give their references' results. Those of `ranges` and `symbols` are compiled once for ranges of sizes, and called at
several sizes: programs of the stepwell dialect, and ONNX models that compute shapes from their sizes.

    python run.py onnx --count 5000 [--first N] [--jobs 2] [--keep FOLDER]

Exits with 1 if a mutant failed. Failing mutants are kept in FOLDER, named by their numbers; the same number makes the
same mutant again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("onnx", "mlir", "artefact", "graph", "ranges", "symbols")


@dataclass
class Campaign:
    """A run over numbers `first` to `last`, shared among worker processes.

    Attributes:
        seconds: maximum processor time of a mutant in seconds, and a tenth of its maximum elapsed time.
        keep: folder for failing mutants; None to discard them.
    """

    kind: str
    first: int
    last: int
    jobs: int
    seconds: int
    keep: Path | None
    words: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def run(self) -> None:
        """Tries all mutants."""
        threads = [threading.Thread(target=self._share, args=(job,)) for job in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _share(self, job: int) -> None:
        """Runs workers in sequence; a new one continues after the mutant that ended the last."""
        number = self.first + job
        while number < self.last:
            number = self._until_the_end(number) + self.jobs

    def _until_the_end(self, number: int) -> int:
        """Runs one worker from `number` on; returns the last number that it tried."""
        numbers = (number, self.jobs, self.last, self.seconds)
        command = [sys.executable, "worker.py", self.kind, *map(str, numbers)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        process = subprocess.Popen(
            command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        lines: queue.Queue[str] = queue.Queue()
        errors: list[str] = []
        for stream, take in ((process.stdout, lines.put), (process.stderr, errors.append)):
            threading.Thread(target=lambda stream, take: [take(line) for line in stream], args=(stream, take)).start()
        current, done, heard = number, number - self.jobs, time.monotonic()
        while process.poll() is None or not lines.empty():
            try:
                record = json.loads(lines.get(timeout=1))
                heard = time.monotonic()
            except queue.Empty:
                # The first line comes after the imports and after the models that mutants are made from.
                if current > done and process.poll() is None and time.monotonic() - heard > 10 * self.seconds:
                    process.kill()
                    self._note(current, "failed", f"took more than {10 * self.seconds} s")
                    return current
                continue
            if record[0] == "start":
                current = record[1]
            else:
                done = record[1]
                self._note(*record[1:])
        if process.returncode or current > done:
            text = "".join(errors)[-2000:]
            if process.returncode == -signal.SIGPROF:
                text = f"computed for more than {self.seconds} s"
            self._note(current, "failed", f"the process ended with {process.returncode}: {text}")
        return current if current + self.jobs < self.last else self.last

    def _note(self, number: int, word: str, reason: str) -> None:
        self.words[f"{word}: {reason}" if word == "refused" else word] += 1
        if word == "failed":
            self.failures[number] = reason
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                data = importlib.import_module(f"{self.kind}_mutants").mutant(number)
                (self.keep / f"{self.kind}_{number}").write_bytes(data)
            print(f"{self.kind} mutant {number}: {reason}", flush=True)


def main() -> int:
    """Parses the command line; the exit code is 1 if there are failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=60, help="how much processor time one may take")
    parser.add_argument("--keep", type=Path, help="where those that fail are written")
    arguments = parser.parse_args()
    first, last = arguments.first, arguments.first + arguments.count
    jobs = min(arguments.jobs, arguments.count)
    campaign = Campaign(arguments.kind, first, last, jobs, arguments.seconds, arguments.keep)
    campaign.run()
    print(f"{arguments.kind}: {sum(campaign.words.values())} mutants; {dict(campaign.words.most_common())}")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
