"""A model whose sizes vary is compiled alone for the first size, then for ranges that contain the sizes of calls."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.driver.serving import inferred_ranges
from stepwell.driver.serving.specializer import Specializer
from stepwell.passes.ranges.errors import RangesError
from stepwell.support.errors import SlowWarning

WEIGHT = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)


def model_of(nodes: Sequence[onnx.NodeProto], *dims: str | int, outputs: int = 2) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * outputs)
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


DENSE = model_of([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])], "rows", 8)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)


def check(run: stepwell.Executable, count: int) -> None:
    """Compares a call with the values."""
    x = rows(count)
    exponents = np.exp((x @ WEIGHT).astype(np.float64))
    np.testing.assert_allclose(run(x), exponents / exponents.sum(1, keepdims=True), rtol=1e-4)


def served(run: stepwell.Executable) -> list[str]:
    return [program.serves for program in run.programs]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_second_size_is_the_last_that_is_compiled_for(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = stepwell.compile(DENSE)
    check(run, 3)
    assert served(run) == ["x=3x8"]
    with caplog.at_level(logging.INFO, "stepwell"):
        for count in (5, 1, 2, 17, 32, 3):
            check(run, count)
    assert served(run) == ["x=3x8", "rows 1 to 32"]
    # Not of slow compiles, nor of another test's compile in the background.
    (line,) = (message for message in caplog.messages if "for cpu: compiled in" in message)
    assert line.startswith("model at rows=1 to 32 for cpu: compiled in ")
    assert line.endswith("(dimension 'rows' was 3 and 5)")
    assert [(record.calls, record.why) for record in run.program_records] == [
        (2, "a call with new shapes"),
        (5, "dimension 'rows' was 3 and 5"),
    ]
    assert all(record.compile_seconds > 0 and record.bytes > 160 for record in run.program_records)
    assert "rows 1 to 32" in run.explain()
    assert run.ranges == {}


def test_a_size_outside_extends_the_range(cache: Path) -> None:
    run = stepwell.compile(DENSE)
    for count in (3, 5, 33, 34, 64, 20):
        check(run, count)
    assert served(run) == ["x=3x8", "rows 1 to 32", "rows 1 to 64"]
    assert run.program_records[2].why == "'rows' is 33 outside of 'rows' 1 to 32"
    assert [record.calls for record in run.program_records] == [1, 2, 3]


def test_the_next_process_finds_the_ranges(cache: Path) -> None:
    run = stepwell.compile(DENSE)
    for count in (3, 5):
        check(run, count)
    for options in ({}, {"cache": "require"}):
        other = stepwell.compile(DENSE, options=options)
        check(other, 11)
        assert served(other) == ["rows 1 to 32"]
        assert other.programs[0].compile_seconds == 0
        assert other.programs[0].why == "an earlier process had calls with such sizes"
    # The program for one size is faster, and is in the cache too.
    other = stepwell.compile(DENSE)
    check(other, 3)
    check(other, 4)
    assert served(other) == ["x=3x8", "rows 1 to 32"]
    with pytest.raises(stepwell.CacheMissError):
        stepwell.compile(DENSE, options={"cache": "require"})(rows(33))


def test_shapes_requested_ahead_get_programs_of_their_own(cache: Path) -> None:
    run = stepwell.compile(DENSE)
    run.prepare({"x": (4, 8)})
    run.prepare({"x": (6, 8)})
    check(run, 4)
    check(run, 6)
    assert served(run) == ["x=4x8", "x=6x8"]
    check(run, 7)
    assert served(run)[2:] == ["rows 1 to 32"]
    run.prepare({"x": (9, 8)})
    check(run, 9)
    assert served(run)[3:] == ["x=9x8"]
    assert run.program_records[3].calls == 1


def test_ranges_can_be_turned_off(cache: Path) -> None:
    run = stepwell.compile(DENSE, options={"ranges": False})
    for count in (3, 5):
        check(run, count)
    assert served(run) == ["x=3x8", "x=5x8"]
    with pytest.warns(SlowWarning, match="To compile once for a range"):
        check(run, 7)


def test_the_third_size_says_why_there_is_no_range(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[object] = []

    def refuse(*given: object, may_fail: bool = True) -> list:
        tries.append(given)
        raise RangesError("'node' mixes rows")

    monkeypatch.setattr(Specializer, "_compile_buckets", refuse)
    run = stepwell.compile(DENSE)
    check(run, 3)
    check(run, 5)
    tried = len(tries)
    assert 0 < tried < 5
    with pytest.warns(SlowWarning, match=r"'rows' was 3, 5 and 7\. One program .* not possible: 'node' mixes rows"):
        check(run, 7)
    check(run, 9)
    assert served(run) == [f"x={count}x8" for count in (3, 5, 7, 9)]
    assert run.explain().startswith("each size is compiled separately, at its first call: 'node' mixes rows\n")
    # Neither this process nor the next tries again.
    other = stepwell.compile(DENSE)
    check(other, 3)
    check(other, 5)
    assert len(tries) == tried


def test_a_size_that_the_model_rejects_is_no_reason_against_ranges(cache: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array([2, -1, 8]))),
        helper.make_node("Reshape", ["x", "two"], ["h"]),
        helper.make_node("ReduceSum", ["h"], ["y"], keepdims=0),
    ]
    run = stepwell.compile(model_of(nodes, "rows", 8, outputs=0), options={"fallback": "error"})
    np.testing.assert_allclose(run(rows(4)), rows(4).sum(), rtol=1e-4)
    with pytest.raises(stepwell.StepwellError):
        run(rows(5))
    run.prepare({"x": (12, 8)})
    for count in (6, 8, 10):
        np.testing.assert_allclose(run(rows(count)), rows(count).sum(), rtol=1e-4)
    assert served(run)[2:] == ["rows 2 to 32 in steps of 2"]


def test_a_range_starts_at_the_least_size_that_the_model_takes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window = numpy_helper.from_array(np.ones((1, 1, 7), np.float32))
    nodes = [
        helper.make_node("Constant", [], ["window"], value=window),
        helper.make_node("Conv", ["x", "window"], ["h"]),
        helper.make_node("Conv", ["h", "window"], ["y"]),
    ]
    model = model_of(nodes, 1, 1, "length", outputs=3)
    run = stepwell.compile(model)
    for length in (20, 40, 13, 100):
        np.testing.assert_array_equal(run(np.ones((1, 1, length), np.float32)), np.full((1, 1, length - 12), 49))
    assert served(run) == ["x=1x1x20", "length 12 to 256"]
    # With 12 elements, the result is empty. The next process finds the range.
    monkeypatch.setattr(Specializer, "_compile_buckets", lambda *args, **kwargs: pytest.fail("compiles again"))
    other = stepwell.compile(model)
    other(np.ones((1, 1, 50), np.float32))
    assert served(other) == ["length 12 to 256"]


def test_scratch_memory_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stepwell.compile(DENSE)
    check(run, 3)
    monkeypatch.setattr(inferred_ranges, "_ARENA_SHARE", 1e-12)
    check(run, 5)
    assert served(run) == ["x=3x8", "x=5x8"]
    with pytest.warns(SlowWarning, match="scratch memory takes"):
        check(run, 7)


def test_equal_dimensions_may_become_different(cache: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node("Neg", ["z"], ["v"])]
    ports = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [dim, 3])
        for name, dim in {"x": "n", "y": "n", "z": "m", "v": "m"}.items()
    }
    graph = helper.make_graph(nodes, "two", [ports["x"], ports["z"]], [ports["y"], ports["v"]])
    run = stepwell.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

    def both(n: int, m: int) -> None:
        x, z = np.full((n, 3), 0.5, np.float32), np.ones((m, 3), np.float32)
        y, v = run(x, z)
        np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)
        np.testing.assert_array_equal(v, -z)

    both(2, 2)
    both(4, 4)
    both(7, 7)
    assert served(run)[1:] == ["n 1 to 16"]
    both(7, 3)
    both(1, 9)
    assert served(run)[2:] == ["n 1 to 32, m 1 to 32"]
    both(5, 5)
    assert [record.calls for record in run.program_records] == [1, 3, 2]


def test_copies_and_artefacts_keep_ranges_and_may_extend_them(cache: Path, tmp_path: Path) -> None:
    run = stepwell.compile(DENSE)
    check(run, 3)
    check(run, 5)
    run.save(tmp_path / "with.stw", keep_model=True)
    for other in (pickle.loads(pickle.dumps(run)), copy.copy(run), stepwell.load(tmp_path / "with.stw")):
        for count in (3, 5, 20):
            check(other, count)
        assert served(other) == served(run)
        check(other, 40)
        assert len(other.programs) == 3
    assert len(run.programs) == 2


def test_an_artefact_without_the_model_serves_its_ranges(cache: Path, tmp_path: Path) -> None:
    run = stepwell.compile(DENSE)
    check(run, 3)
    check(run, 5)
    run.save(tmp_path / "alone.stw")
    other = stepwell.load(tmp_path / "alone.stw")
    for count in (3, 5, 20):
        check(other, count)
    assert [record.calls for record in other.program_records] == [1, 2]
    assert {record.why for record in other.program_records} == {"part of the artefact"}
    with pytest.raises(stepwell.ShapeError, match=r"no code for x=40x8, .* there is code for: x=3x8; rows 1 to 32"):
        other(rows(40))


@pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")
def test_the_least_recently_used_programs_are_dropped(cache: Path) -> None:
    run = stepwell.compile(DENSE, options={"ranges": True, "max_programs": 2})
    run.prepare({"x": (2, 8)})
    for count in (2, 5, 33, 65, 129):  # each extends the range
        check(run, count)
    assert served(run) == ["x=2x8", "rows 1 to 64", "rows 1 to 128", "rows 1 to 256"]
    check(run, 50)  # used again, so the next to go is the other one
    check(run, 300)
    assert served(run) == ["x=2x8", "rows 1 to 64", "rows 1 to 256", "rows 1 to 512"]
    for count in (2, 5, 50, 100, 200, 300):
        check(run, count)


def test_calls_in_range_do_not_wait_for_a_compile(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stepwell.compile(DENSE)
    check(run, 3)
    check(run, 5)
    began, may_end = threading.Event(), threading.Event()
    compiled = Specializer.range_over

    def slow(self: Specializer, *arguments: object) -> object:
        began.set()
        assert may_end.wait(60)
        return compiled(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Specializer, "range_over", slow)
    other = threading.Thread(target=check, args=(run, 100))
    other.start()
    try:
        assert began.wait(60)
        for count in (7, 8, 9, 3):
            check(run, count)
    finally:
        may_end.set()
        other.join()
    assert len(run.programs) == 3


def test_threads_with_many_sizes(cache: Path) -> None:
    run = stepwell.compile(DENSE, threads=1, options={"max_programs": 1})
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for count in np.random.default_rng(seed).integers(1, 200, 40).tolist():
                check(run, count)
        except BaseException as error:  # the thread would lose it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(run.programs) <= 2
