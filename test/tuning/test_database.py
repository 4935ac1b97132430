"""The database of trials: writers at the same time, a kill in the middle of writes, merges, and foreign files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from stepwell.tuning.choices import best_trials, tuning_of
from stepwell.tuning.database import Conditions, Database, KernelRow, Trial
from stepwell.tuning.errors import TuningError

PLACE = Conditions("machine", "compiler", 2)
KERNEL = KernelRow("kernel_1", "contraction", ("dense",), 100, 10, {"tiles": [[6]]})


def trial(number: int, **fields) -> Trial:
    measured = {"gain": 1.1, "low": 1.05, "high": 1.2, "made": float(number), "turns": 9}
    return Trial("kernel_1", PLACE, {"tiles": [[number]]}, **{**measured, **fields})


def write(path: Path, first: int, count: int) -> None:
    database = Database(path)
    for number in range(first, first + count):
        database.add([trial(number)])


def test_a_trial_is_read_as_it_was_written(tmp_path) -> None:
    database = Database(tmp_path / "new" / "trials.sqlite")
    made = trial(1, features={"depth": 3.0}, predicted=1.3, searcher="random")
    database.add([made, trial(2, status="failed", reason="no", gain=None, low=None, high=None)])
    assert database.trials(PLACE)[0] == made
    assert database.trials(Conditions("other", "compiler", 2)) == [] and len(database.trials(kernel="kernel_1")) == 2


def test_writers_at_the_same_time_lose_nothing(tmp_path) -> None:
    path, context = tmp_path / "trials.sqlite", multiprocessing.get_context("fork")
    writers = [context.Process(target=write, args=(path, 100 * number, 20)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    database = Database(path)
    assert database.count() == 80 and database.check() == "ok"


def test_kill_9_in_the_middle_of_writes_loses_no_trial(tmp_path) -> None:
    """The child says after each trial that it is stored; it is killed at ten different moments."""
    context = multiprocessing.get_context("fork")
    path, stored = tmp_path / "trials.sqlite", 0
    for attempt in range(10):
        reading, writing = os.pipe()

        def work(attempt=attempt, writing=writing) -> None:
            database = Database(path)
            for number in range(100_000):
                database.add([trial(1_000_000 * attempt + number)])
                os.write(writing, b".")

        child = context.Process(target=work)
        child.start()
        os.close(writing)
        os.read(reading, 1)  # it has begun
        time.sleep(0.004 * attempt)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        with open(reading, "rb") as stream:
            said = 1 + len(stream.read())
        database = Database(path)
        count = database.count()
        assert database.check() == "ok" and count >= stored + said
        stored = count


def test_merge_copies_what_is_missing(tmp_path) -> None:
    ours, theirs = Database(tmp_path / "ours.sqlite"), Database(tmp_path / "theirs.sqlite")
    theirs.add_kernels([KERNEL])
    digest = theirs.add_machine("{}")
    ours.add([trial(1)])
    theirs.add([trial(1), trial(2), trial(3)])
    assert ours.merge(theirs) == 2 and ours.merge(theirs) == 0
    assert ours.count() == 3 and ours.machines() == {digest: "{}"} and ours.kernels() == {"kernel_1": KERNEL}


def test_prune_deletes_other_compilers(tmp_path) -> None:
    database = Database(tmp_path / "trials.sqlite")
    old = Trial("kernel_1", Conditions("machine", "old", 2), {}, made=1.0)
    database.add([old, trial(2)])
    assert database.prune(["compiler"]) == 1 and database.trials() == [trial(2)]


@pytest.mark.parametrize("contents", [b"not a database, but long enough to be one" * 30, None])
def test_foreign_files_are_refused(contents, tmp_path) -> None:
    path = tmp_path / "file"
    if contents is None:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    else:
        path.write_bytes(contents)
    with pytest.raises(TuningError, match=r"file: file is not a database; name|has schema 99, not 2"):
        Database(path)
    with pytest.raises(TuningError, match="there is no database"):
        Database(tmp_path / "missing", must_exist=True)


def test_the_last_measurement_of_a_schedule_counts(tmp_path) -> None:
    lucky = trial(1, gain=2.0, low=1.9, made=1.0)
    again = trial(1, gain=1.01, low=0.98, made=2.0)
    good = trial(2, gain=1.2, low=1.1, made=3.0)
    assert best_trials([lucky, again, good]) == [good]
    table = tuning_of([good], {"kernel_1": KERNEL}, "cpu")
    assert table.kernels["kernel_1"].nodes == ("dense",) and table.kernels["kernel_1"].threads == 2
