"""Searches end to end: kept trials, resumption, crashes of candidates, and the use of what was found."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import stepwell
from stepwell.tuning import session as sessions
from stepwell.tuning.children import TrialFailure
from stepwell.tuning.choices import tuning_of
from stepwell.tuning.database import Database
from stepwell.tuning.intervals import GainRange
from stepwell.tuning.measurement import WHOLE, Measured
from stepwell.tuning.options import TuningOptions
from stepwell.tuning.report import page, summary
from stepwell.tuning.session import TuningSession
from stepwell.tuning.trials import Trials

from . import graphs

SHORT = TuningOptions(seconds=60, trials=4, threads=1, searcher="evolution", turns=6, processes=1)


def inputs_of(model) -> list[np.ndarray]:
    return [np.random.default_rng(0).random(info.shape, np.float32) for info in model.program({}).inputs]


@pytest.fixture
def model(opened, tmp_path):
    return opened(graphs.product(tmp_path / "model.onnx"))


@pytest.fixture
def database(tmp_path) -> Database:
    return Database(tmp_path / "trials.sqlite")


def test_a_search_keeps_its_trials_and_the_next_one_knows_them(model, database) -> None:
    steps = []
    first = TuningSession(model, inputs_of(model), database, SHORT, lambda progress: steps.append(progress.step)).run()
    assert first.trials == 4 and "searching" in steps and not first.is_interrupted
    kept = database.trials()
    assert len(kept) >= 4 and all(trial.status == "ok" and trial.turns >= 6 and trial.features for trial in kept)
    second = TuningSession(model, inputs_of(model), database, SHORT).run()
    assert sum(len(course.trials) for course in second.courses) == database.count() > len(kept)
    proposed = [trial.key for trial in database.trials()[len(kept) :]]
    finalists = {trial.key for trial in database.trials() if (trial.gain or 0) > 1}
    assert set(proposed) - {trial.key for trial in kept} - finalists or finalists
    text = page("model", second)
    assert summary(second) in text and "<svg" in text


@pytest.mark.sweep
def test_kill_9_in_the_middle_of_a_search_loses_no_trial(model, database, tmp_path) -> None:
    arrays, path = inputs_of(model), database.path
    said = tmp_path / "said"

    def work() -> None:
        endless = replace(SHORT, trials=10_000, seconds=600)
        with open(said, "w", buffering=1) as stream:
            TuningSession(
                model, arrays, Database(path), endless, lambda progress: print(progress.trials, file=stream)
            ).run()

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    try:
        limit = time.monotonic() + 120
        while not said.exists() or not any(line.strip() not in ("", "0") for line in said.read_text().splitlines()):
            assert time.monotonic() < limit and child.is_alive()
            time.sleep(0.05)
    finally:
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
    count = max(int(line) for line in said.read_text().split("\n")[:-1])
    after = Database(path)
    assert after.check() == "ok" and after.count() >= count >= 1
    resumed = TuningSession(model, arrays, after, replace(SHORT, trials=1)).run()
    assert sum(len(course.trials) for course in resumed.courses) >= count + 1


def test_ctrl_c_keeps_everything_and_still_compares(model, database) -> None:
    def interrupt(progress) -> None:
        if progress.trials >= 2 and progress.step == "searching":
            raise KeyboardInterrupt

    result = TuningSession(model, inputs_of(model), database, SHORT, interrupt).run()
    assert result.is_interrupted and 2 <= result.trials < 4 and database.count() >= 2


def test_a_crash_is_attributed_to_its_candidate(model, monkeypatch) -> None:
    names = sorted(model.kernels)
    trials, crashing = Trials(model, inputs_of(model), 1, 1, 6), names[0]
    trials.prepare()
    schedules = {name: {"unroll": 1 + number} for number, name in enumerate(names)}
    assert trials.compile(schedules) == {}
    compiled = model.program

    def program(chosen):
        if chosen.get(crashing):
            os.kill(os.getpid(), signal.SIGSEGV)
        return compiled(chosen)

    monkeypatch.setattr(model, "program", program)
    found = trials.measure(schedules, {})
    assert found[crashing] == TrialFailure("crashed: SIGSEGV")
    assert all(isinstance(found[name], Measured) for name in names[1:])


def test_wrong_numbers_are_found(model, monkeypatch) -> None:
    trials = Trials(model, inputs_of(model), 1, 1, 6)
    trials.prepare()
    name, compiled = next(iter(model.kernels)), model.program

    def program(chosen):
        made = compiled({})
        wrong = {key: value * 3 for key, value in made.parameters.items()}
        return replace(made, parameters=wrong) if chosen else made

    monkeypatch.setattr(model, "program", program)
    assert trials.measure({name: {"unroll": 2}}, {})[name] == TrialFailure("wrong numbers")


def test_a_schedule_that_cannot_be_applied_fails_alone(model) -> None:
    trials = Trials(model, inputs_of(model), 1, 1, 6)
    first, second = sorted(model.kernels)
    found = trials.compile({first: {"tiles": [[1], [1]], "blocks": [[1, 2, 3]]}, second: {"unroll": 2}})
    assert list(found) in ([first], [first, second]) and "\n" not in found[first].reason


@pytest.mark.sweep
def test_the_winners_make_the_model_faster(model, database, monkeypatch, tmp_path) -> None:
    """A search whose measurements are given: the fastest candidate wins, is shipped, and is reported."""

    def measure(self, schedules, best, turns=None):
        times = {name: Measured(GainRange(1.5, 1.4, 1.6, 9), 100.0, 150.0) for name in schedules}
        return {**times, WHOLE: Measured(GainRange(1.3, 1.2, 1.4, 9), 1000.0, 1300.0)}

    monkeypatch.setattr(sessions.Trials, "measure", measure)
    result = TuningSession(model, inputs_of(model), database, SHORT).run()
    assert result.whole is not None and result.whole.gain.value == 1.3 and result.winners
    file = tmp_path / "model.tuning.json"
    file.write_text(tuning_of(result.winners.values(), database.kernels()).text())
    usual = stepwell.compile(str(tmp_path / "model.onnx"), threads=1)
    tuned = stepwell.compile(str(tmp_path / "model.onnx"), threads=1, options={"tuning": file})
    x = inputs_of(model)[0]
    np.testing.assert_allclose(tuned(x), usual(x), rtol=1e-4, atol=1e-6)
    for run in (tuned, _reloaded(tuned, tmp_path)):
        found = {kernel["name"]: kernel["tuning"] for kernel in run.report().kernels}
        for name in found:
            wanted = {"status": "tuned", "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1.0}
            assert found[name] == (wanted if name in result.winners else {"status": "default"})
        assert "1.50x" in str(run.report())
    schedules = {kernel["name"]: kernel["parameters"] for kernel in tuned.report().kernels}
    for name, trial in result.winners.items():
        assert schedules[name] == schedules[name] | trial.schedule
    assert [kernel["tuning"] for kernel in usual.report().kernels] == [{"status": "default"}] * len(schedules)


def test_winners_that_are_slower_beside_the_others_are_dropped(model, database, monkeypatch) -> None:
    loser, finals = sorted(model.kernels)[0], []

    def measure(self, schedules, best, turns=None):
        if turns == 2 * SHORT.turns:
            finals.append(set(schedules))
        gains = {name: 0.9 if name == loser and len(finals) == 2 else 1.5 for name in schedules}
        found = {name: Measured(GainRange(gain, gain, gain, 9), 100.0, 100.0 * gain) for name, gain in gains.items()}
        return {**found, WHOLE: Measured(GainRange(1.2, 1.1, 1.3, 9), 100.0, 120.0)}

    monkeypatch.setattr(sessions.Trials, "measure", measure)
    monkeypatch.setattr(sessions, "_FINALISTS", 1)
    result = TuningSession(model, inputs_of(model), database, SHORT).run()
    everyone = set(model.kernels)
    assert finals == [everyone, everyone, everyone - {loser}] and set(result.winners) == everyone - {loser}


def _reloaded(run, folder):
    run.save(folder / "tuned.stw")
    return stepwell.load(folder / "tuned.stw", threads=1)
