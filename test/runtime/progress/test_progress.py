"""Progress of compiles: the log, the callback, and silence."""

import logging
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime.progress import progress

X = np.ones((2, 6), np.float32)


def chain():
    """Softmaxes of several widths, each of which is a separate kernel."""
    nodes = [helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"])]
    nodes += [helper.make_node("Softmax", ["b"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache for every test."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))


def test_a_callback_receives_misses_kernels_and_hits():
    events = []
    options = stepwell.Options(progress=events.append)
    stepwell.compile(chain(), threads=1, options=options)(X)
    assert [events[0].phase, events[-1].phase] == ["start", "done"]
    kernels = [(event.done, event.total) for event in events if event.phase == "kernels"]
    total = kernels[0][1]
    assert total >= 2 and kernels[0] == (0, total) and kernels[-1] == (total, total)
    assert [done for done, _ in kernels] == sorted(done for done, _ in kernels)
    assert all(event.model == "model" and event.what == "x=2x6" for event in events)
    events.clear()
    stepwell.compile(chain(), threads=1, options=options)(X)
    assert [event.phase for event in events] == ["start", "hit"]


def test_a_callback_receives_phases_and_the_target():
    events = []
    options = stepwell.Options(progress=events.append, cache=False)
    stepwell.compile(chain(), target="x86-64-v3", threads=1, options=options).prepare({"x": (2, 6)})
    steps = list(dict.fromkeys(event.step for event in events if event.phase == "phase"))
    assert steps[:3] == ["import", "graph", "kernels"] and len(steps) > 3
    phases = [event.phase for event in events]
    assert phases.index("phase") < phases.index("kernels")
    assert {event.target for event in events} == {"x86-64-v3"}


def test_the_reason_separates_calls_from_ahead_of_time_compiles(tmp_path):
    events = []

    def reasons():
        found = [event.why for event in events if event.phase == "start"]
        events.clear()
        return found

    options = stepwell.Options(progress=events.append)
    run = stepwell.compile(chain(), threads=1, options=options)
    run(X)
    assert reasons() == ["a call with new shapes"]
    run.prepare({"x": (3, 6)})
    assert reasons() == ["ahead, for given shapes"]
    stepwell.compile(chain(), threads=1, options=stepwell.Options(progress=events.append, shapes={"x": (4, 6)}))
    assert reasons() == ["ahead, for given shapes"]
    stepwell.compile(chain(), options=stepwell.Options(progress=events.append, dims={"n": (1, 8), "m": 6}))
    assert reasons() == ["for ranges of sizes"]
    run.save(tmp_path / "model.stw", keep_model=True)
    with progress.watched_by(events.append):
        stepwell.load(tmp_path / "model.stw", threads=1)(np.ones((5, 6), np.float32))
    assert reasons() == ["dimension 'n' was 2, 3 and 5"]


def test_the_reason_names_subgraphs_of_a_partitioned_model():
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("NonZero", ["a"], ["b"])]
    nodes += [helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT), helper.make_node("Neg", ["c"], ["y"])]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "k"])]
    model = helper.make_model(helper.make_graph(nodes, "g", ports, outputs), ir_version=9)
    events = []
    options = stepwell.Options(progress=events.append, fallback="quiet")
    stepwell.compile(model, threads=1, options=options)(X)
    reasons = {event.why for event in events}
    assert "ahead, for given shapes" in reasons
    assert "subgraph of a model, ahead, for given shapes" in reasons
    assert "subgraph of a model, a call with new shapes" in reasons


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes child processes")
def test_a_child_process_reports_to_its_parent_s_callback():
    events, processes = [], set()

    def told(event):
        events.append(event)
        processes.add((os.getpid(), threading.get_ident()))

    options = stepwell.Options(progress=told, cache=False, guarded=True)
    stepwell.compile(chain(), threads=1, options=options)(X)
    kernels = [(event.done, event.total) for event in events if event.phase == "kernels"]
    assert kernels[-1][0] == kernels[-1][1] >= 2
    assert [events[0].phase, events[-1].phase] == ["start", "done"]
    assert [event.seconds for event in events] == sorted(event.seconds for event in events)
    assert processes == {(os.getpid(), threading.get_ident())}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes child processes")
def test_an_exception_of_a_callback_ends_the_child_process(monkeypatch):
    fork, children = os.fork, []

    def forked():
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", forked)

    def told(event):
        if event.phase == "kernels":
            raise KeyError(event.phase)

    options = stepwell.Options(progress=told, cache=False, guarded=True)
    with pytest.raises(KeyError):
        stepwell.compile(chain(), threads=1, options=options)(X)
    for child in children:
        with pytest.raises(ChildProcessError):  # it has ended, and its parent has waited for it
            os.waitpid(child, 0)
    assert children


def test_a_pickle_does_not_contain_the_callback():
    events = []
    run = stepwell.compile(chain(), threads=1, options=stepwell.Options(progress=lambda event: events.append(event)))
    copied = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(copied(X), run(X))
    assert [event.phase for event in events] == ["start", "hit"]  # of the second call only


@pytest.mark.parametrize("value", ["yes", 1, []])
def test_other_values_are_refused(value):
    with pytest.raises(stepwell.OptionError, match=r"progress is .*, and must be callable, True, False or None"):
        stepwell.Options(progress=value)


def test_compiles_for_ranges_are_reported_too():
    events = []
    options = stepwell.Options(progress=events.append, dims={"n": (1, 8), "m": 6})
    stepwell.compile(chain(), threads=1, options=options)
    assert [events[0].phase, events[-1].phase] == ["start", "done"]
    assert "n=" in events[0].what


def test_bytes_do_not_depend_on_a_callback():
    quiet = stepwell.compile(chain(), options=stepwell.Options(cache=False, shapes={"x": (2, 6)}))
    heard = stepwell.compile(
        chain(), options=stepwell.Options(cache=False, shapes={"x": (2, 6)}, progress=lambda event: None)
    )
    assert [item.objects for item in quiet.programs] == [item.objects for item in heard.programs]


def test_a_failure_is_reported(caplog):
    caplog.set_level(logging.INFO, "stepwell")
    events = []
    with (
        pytest.raises(KeyError),
        progress.reporting(events.append, "m", "x=1", "a test"),
    ):
        raise KeyError
    assert [event.phase for event in events] == ["start", "failed"]
    assert "m at x=1 for cpu: failed" in caplog.text


def test_one_line_for_each_compile(caplog):
    caplog.set_level(logging.INFO, "stepwell")
    for _ in range(2):
        stepwell.compile(chain(), threads=1)(X)
    texts = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert "model at x=2x6 for cpu: compiled in" in texts[0]
    assert "model at x=2x6 for cpu: from the cache in" in texts[1]
    assert all(text.endswith("(a call with new shapes)") for text in texts)


def test_a_slow_compile_is_a_warning(caplog, monkeypatch):
    monkeypatch.setattr(progress, "_SLOW_SECONDS", 0.01)
    with progress.reporting(None, "m", "", "a test") as reporter:
        reporter.miss()
        time.sleep(0.2)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "m for cpu: still compiling after 0.01 s (a test)" in caplog.text


def test_nothing_is_printed_unless_logging_is_set_up():
    script = "import sys, numpy, stepwell\n"
    script += "stepwell.compile(bytes.fromhex(sys.argv[1]), threads=1)(numpy.ones((2, 6), numpy.float32))"
    done = subprocess.run([sys.executable, "-c", script, chain().hex()], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
