"""Files of results: ratios, reading and writing, merging, comparing, tables, pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from stepwell.bench import compare, report
from stepwell.bench.machine import HostRecord
from stepwell.bench.record import CaseRows, Results, ResultsError, Row
from stepwell.runtime.devices.peaks import Peaks

MACHINE = HostRecord(
    "Some CPU", "somecpu", 256, 2, {"L2": 1 << 20}, 1 << 34, "Linux 6", "performance", False, {"numpy": "2"}
)
PEAKS = Peaks(1, 1e11, [(1 << 15, 2e11), (1 << 28, 1e10)], [(1 << 15, 3e11), (1 << 28, 1e10)])


@pytest.fixture
def results() -> Results:
    """Two models: Stepwell twice as fast as the fastest peer on one, half as fast on the other."""
    rows = [
        row("swift", "stepwell", 1.0),
        row("swift", "onnxruntime", 2.0),
        row("swift", "openvino", 3.0),
        row("slow", "stepwell", 1.0),
        row("slow", "onnxruntime", 0.5),
        Row("slow", "model", {"x": (1, 3)}, 1, "openvino", "it has no such operator"),
    ]
    return Results("models", MACHINE, {1: PEAKS}, rows, {"iree": "not installed: pip install iree"})


def row(case: str, system: str, seconds: float) -> Row:
    """A row that took this many seconds."""
    work = {"flops": 2e10, "bytes": 1e6, "bound_seconds": 0.2} if system == "stepwell" else {}
    return Row(case, "model", {"x": (1, 3)}, 1, system, difference=1e-6, **work).timed([seconds] * 3)


def test_ratios(results: Results) -> None:
    swift, slow = results.cases()
    assert swift.fastest is swift.peers["onnxruntime"]
    assert (swift.speedup(swift.fastest), slow.speedup(slow.fastest)) == (2.0, 0.5)
    assert slow.speedup(slow.peers["openvino"]) is None
    assert list(results.speedups()) == ["1"]
    assert results.speedups()["1"] == pytest.approx({"onnxruntime": 1, "openvino": 3, "fastest": 1})
    assert swift.share_of_peak == pytest.approx(0.2)
    assert swift.share_of_peak_then is None
    # 2e10 operations in one second.
    assert CaseRows(replace(swift.here, peak_then=8e10), {}).share_of_peak_then == pytest.approx(0.25)


def test_a_file_is_read_as_it_was_written(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text(results.text())
    read = Results.read(path)
    assert read.date
    assert [item.key for item in read.rows] == [item.key for item in results.rows]
    assert (read.machine, read.peaks, read.missing) == (results.machine, results.peaks, results.missing)
    record = json.loads(path.read_text())
    assert record["speedups"]["1"]["fastest"] == 1.0
    assert [entry.get("speedup") for entry in record["rows"]] == [None, 2.0, 3.0, None, 0.5, None]
    assert "SIGSTOP" in record["pinning"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ResultsError, match="not a file of results"):
        Results.read(tmp_path / "other.json")


def test_newer_rows_take_the_place_of_older_ones(results: Results) -> None:
    better = replace(PEAKS, flops=2e11)
    newer = Results(
        "models", MACHINE, {1: better, 2: PEAKS}, [row("slow", "stepwell", 0.1), row("new", "stepwell", 1.0)]
    )
    merged = newer.merged_into(results)
    assert [(item.case, item.system) for item in merged.rows] == [
        *((item.case, item.system) for item in results.rows),
        ("new", "stepwell"),
    ]
    assert merged.rows[3].median_seconds == 0.1
    assert (merged.peaks[1].flops, list(merged.peaks)) == (2e11, [1, 2])


def test_rows_of_another_machine_are_not_mixed_in(results: Results) -> None:
    other = replace(results, machine=replace(MACHINE, cores=4))
    with pytest.raises(ResultsError, match="another machine"):
        other.merged_into(results)


def test_regressions_are_found(results: Results) -> None:
    rows = [row("swift", "stepwell", 1.2), row("slow", "stepwell", 1.01)]
    found = compare.compare(results, replace(results, rows=rows))
    assert found.unit == "seconds"
    assert [(change.case, change.is_regression(0.05)) for change in found.changes] == [("swift", True), ("slow", False)]
    assert found.gone == []
    table = report.change_table(found, 0.05)
    assert [cells[-1] for cells in table.rows] == ["SLOWER", ""]


def test_cases_that_no_longer_run_are_found(results: Results) -> None:
    broken = [Row("swift", "model", {"x": (1, 3)}, 1, "stepwell", "it broke"), row("slow", "stepwell", 1.0)]
    assert compare.compare(results, replace(results, rows=broken)).gone == ["swift (1 threads)"]


def test_other_machines_are_compared_by_the_fastest_peer(results: Results) -> None:
    rows = [replace(item, median_seconds=item.median_seconds and 3 * item.median_seconds) for item in results.rows]
    found = compare.compare(results, replace(results, machine=replace(MACHINE, cpu="Another"), rows=rows))
    assert "fastest peer" in found.unit
    assert [change.factor for change in found.changes] == pytest.approx([1, 1])


def test_tables(results: Results) -> None:
    tables = report.tables(results)
    assert all(len(cells) == len(table.headers) for table in tables for cells in table.rows)
    _, times, _, means, failures = tables
    assert times.rows[0][0] == "swift"
    assert times.rows[0][-2:] == ("onnxruntime", "2.00")
    assert "2 s (2.00)" in times.rows[0]
    assert means.rows[0] == ("1", "onnxruntime", "2", "1.00", "0.50", "slow", "1", "slow")
    assert means.rows[1] == ("1", "openvino", "1", "3.00", "3.00", "swift", "0", "-")
    assert means.rows[2][:4] == ("1", "fastest", "2", "1.00")
    assert failures.rows == [
        ("iree", "not installed: pip install iree", "anything"),
        ("openvino", "it has no such operator", "slow"),
    ]


@pytest.mark.parametrize("what", ["models", "kernels", "growth", "sessions"])
def test_pictures(results: Results, tmp_path: Path, what: str) -> None:
    plot = pytest.importorskip("stepwell.bench.plot", exc_type=ImportError)
    rows = {
        "growth": [replace(row(f"transformer-{n}", "stepwell", 1.0), cold_seconds=n / 10) for n in (1, 2)],
        "sessions": [replace(row("swift", "stepwell", 1.0), one_session=10.0, two_sessions=19.0)],
    }
    plot.draw(replace(results, what=what, rows=rows.get(what, results.rows)), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
