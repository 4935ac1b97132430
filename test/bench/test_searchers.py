"""`stepwell-bench searchers`: replays of searches over known trials."""

from __future__ import annotations

import json

import pytest
from stepwell.bench import command, searchers
from stepwell.tuning.database import Conditions, Database, Trial

PLACE = Conditions("machine", "compiler", 1)


def trials(kernel: str, count: int = 20) -> list[Trial]:
    """Gains that grow with a feature, of which the cost function believes the contrary."""
    return [
        Trial(
            kernel,
            PLACE,
            {"unroll": number},
            gain=1 + number / 10,
            predicted=1 - number / 100,
            features={"unroll": float(number)},
            made=float(number),
        )
        for number in range(1, count + 1)
    ]


def test_the_learned_model_uses_other_kernels() -> None:
    pytest.importorskip("lightgbm")
    found = searchers.replay([*trials("a"), *trials("b")])
    assert [item.kernel for item in found] == ["a", "b"] and [item.schedules for item in found] == [20, 20]
    for item in found:
        assert item.best == 3.0 and item.trials["random"] == 21 / 3  # 3.0 and 2.9 are good
        assert item.trials["cost function"] == 19 and item.trials["learned"] <= 5
        assert item.trials["policy"] <= 5 < item.trials["evolution"] and item.trials["exhaustive"] == 7
    assert searchers.medians(found)["random"] == 7


def test_equal_costs_are_in_random_order() -> None:
    pytest.importorskip("lightgbm")
    equal = [Trial("a", PLACE, item.schedule, gain=item.gain, features=item.features) for item in trials("a")]
    (found,) = searchers.replay(equal)
    assert found.trials["cost function"] == found.trials["random"]


def test_the_command(tmp_path, capsys) -> None:
    pytest.importorskip("lightgbm")
    database = Database(tmp_path / "trials.sqlite")
    assert command.main(["searchers", str(database.path)]) == 2
    assert "no kernel has 16 trials" in capsys.readouterr().err
    database.add(trials("kernel_a"))
    assert command.main(["searchers", str(database.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["medians"]["random"] == 7
    assert command.main(["searchers", str(database.path)]) == 0
    assert "median" in capsys.readouterr().out
