"""Decisions on graphs: legal ones give the same results, others are refused, and compiles use those that were found."""

from __future__ import annotations

import random

import numpy as np
import pytest
import stepwell
from stepwell.lowering.linalg_to_vector.spaces.space import RefusedError
from stepwell.passes.infra.tuning import TunedDecision, Tuning, read_tuning
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.tuning.children import TrialFailure
from stepwell.tuning.choices import tuning_of
from stepwell.tuning.database import Database
from stepwell.tuning.graph.trials import GraphTrials
from stepwell.tuning.intervals import GainRange
from stepwell.tuning.measurement import Measured
from stepwell.tuning.options import TuningOptions
from stepwell.tuning.search import ModelSearch
from stepwell.tuning.searchers.simple import RandomSearcher

from .. import graphs


def inputs_of(program) -> list[np.ndarray]:
    return [np.random.default_rng(0).random(info.shape, np.float32) for info in program.inputs]


def run(program) -> np.ndarray:
    model = CompiledModel(program.inputs, program.outputs, [program])
    return Executable(model, 1)(*inputs_of(program))


@pytest.fixture
def graph(graph_of, tmp_path):
    return graph_of(graphs.images(tmp_path / "model.onnx"))


def method_of(graph) -> str:
    (name,) = [name for name, item in graph.space.sites.items() if item.site.kind == "method"]
    return name


def test_every_decision_gives_the_same_results(graph) -> None:
    want, kinds = run(graph.default), set()
    for axis in graph.space.axes:
        for value in axis.values[1:]:
            decided = graph.space.parameters({axis.name: value})
            made = graph.program(decided)
            assert {row.name for row in made.kernels} != {row.name for row in graph.default.kernels}
            np.testing.assert_allclose(run(made), want, rtol=1e-4, atol=1e-5)
            kinds.add((graph.space.sites[axis.name].site.kind, value))
    assert kinds >= {("method", "unfolded"), ("method", "winograd 2"), ("fusion", "apart")}


def test_decisions_are_independent(graph) -> None:
    found = RandomSearcher(graph.space, random.Random(3)).ask()
    assert found is not None and all(np.isfinite(list(graph.space.features(found.parameters).values())))
    np.testing.assert_allclose(run(graph.program(found.parameters)), run(graph.default), rtol=1e-4, atol=1e-5)


def test_impossible_decisions_are_refused_with_a_reason(graph) -> None:
    with pytest.raises(RefusedError, match="'winograd 64' is not possible, only direct, winograd 2"):
        graph.space.parameters({method_of(graph): "winograd 64"})
    with pytest.raises(RefusedError, match="no site 'layout of nothing'"):
        graph.space.parameters({"layout of nothing": "channels_first"})
    # A compile does not fail by a decision that is for another graph.
    same = graph.program({method_of(graph): "winograd 64", "layout of nothing": "channels_first"})
    assert [row.name for row in same.kernels] == [row.name for row in graph.default.kernels]


def test_the_cost_function_prefers_its_own_decisions(graph) -> None:
    decided = graph.space.parameters({method_of(graph): "unfolded"})
    assert graph.space.predicted(decided) > graph.space.predicted({}) > 0


def test_shorter_products_only_within_the_given_error(graph_of, tmp_path) -> None:
    path = graphs.product(tmp_path / "model.onnx")
    assert not graph_of(path).space.axes
    graph = graph_of(path, may_round=True)
    (axis,) = graph.space.axes
    inputs = inputs_of(graph.default)
    within = GraphTrials(graph, inputs, 1, 6, error=0.05).measured({axis.name: "bf16"}, 1.0, 6)
    assert isinstance(within, Measured)
    beyond = GraphTrials(graph, inputs, 1, 6, error=1e-7).measured({axis.name: "bf16"}, 1.0, 6)
    assert beyond == TrialFailure("wrong numbers: results differ by more than 1e-07 of the greatest")


def test_a_search_finds_decisions_that_a_compile_then_uses(graph, setup, tmp_path, monkeypatch) -> None:
    """A search whose measurements are given: the unfolded convolution wins, is shipped, and is compiled."""
    wanted = method_of(graph)

    def measured(self, decided, best, turns):
        gain = 1.5 if decided.get(wanted) == "unfolded" else 0.8
        return Measured(GainRange(gain, gain, gain, 9), 100.0, 100.0 * gain)

    monkeypatch.setattr(GraphTrials, "measured", measured)
    database = Database(tmp_path / "trials.sqlite")
    options = TuningOptions(seconds=60, trials=24, threads=1, searcher="policy", graph=1.0, processes=1, turns=6)
    searched = ModelSearch(graph.source, graph.shapes, inputs_of(graph.default), database, options)
    found = searched.graph(setup)
    assert found is not None and found.whole is not None and found.whole.gain.value == 1.5
    (winner,) = found.winners.values()
    assert winner.schedule[wanted] == "unfolded" and winner.is_graph
    file = tmp_path / "model.tuning.json"
    file.write_text(tuning_of([winner], database.kernels()).text())
    tuned = stepwell.compile(str(tmp_path / "model.onnx"), threads=1, options={"tuning": file})
    kernels = {kernel["name"] for kernel in tuned.report().kernels}
    assert kernels == {row.name for row in graph.program(winner.schedule).kernels}
    assert kernels != {row.name for row in graph.default.kernels}
    (image,) = inputs_of(graph.default)
    np.testing.assert_allclose(tuned(image), run(graph.default), rtol=1e-4, atol=1e-5)
    assert any("unfolded" in str(remark) for remark in tuned.report().remarks)
    # The next search knows the trials of this one.
    again = searched.graph(setup)
    assert again is not None and len(again.courses[0].trials) > len(found.courses[0].trials)


def test_decisions_are_for_one_machine_and_the_best_counts(tmp_path) -> None:
    items = [
        TunedDecision("method a", "direct", "here", 1.1, 1.0, 1.2, 1),
        TunedDecision("method a", "unfolded", "here", 1.3, 1.2, 1.4, 1),
        TunedDecision("method a", "winograd 4", "there", 2.0, 1.9, 2.1, 1),
    ]
    path = tmp_path / "a.tuning.json"
    path.write_text(Tuning.of([], decisions=items).text())
    table = read_tuning(path)
    assert table.decisions_for("here") == {"method a": "unfolded"}
    assert table.digest == Tuning.of([], decisions=items).digest != Tuning().digest
