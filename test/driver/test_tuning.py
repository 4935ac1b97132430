"""`Options.tuning`: tuned schedules from files and folders, their part in cache keys, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.support.version import VERSION

MODEL = b"""
func.func @main(%x: tensor<64x32xf32> {stepwell.name = "x"}) -> (tensor<64x32xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.tanh"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
"""


def kernel() -> str:
    return stepwell.compile(MODEL, threads=1).programs[0].kernels[0].name


def write(path: Path, name: str, schedule: dict, gain: float = 1.2, compiler: str = VERSION) -> Path:
    entry = {"kernel": name, "schedule": schedule, "gain": gain, "low": 1.1, "high": 1.3, "threads": 2}
    path.write_text(json.dumps({"schema": 1, "compiler": compiler, "machine": "cpu", "kernels": [entry]}))
    return path


def schedule_of(**options) -> dict:
    return stepwell.compile(MODEL, threads=1, options=options).report().kernels[0]["parameters"]


def test_a_file_decides_the_schedule_and_the_cache_tells_files_apart(tmp_path) -> None:
    name, file = kernel(), tmp_path / "one.tuning.json"
    usual = schedule_of()
    assert schedule_of(tuning=write(file, name, {"unroll": 1})) == usual | {"unroll": 1}
    assert schedule_of(tuning=str(write(file, name, {"unroll": 2}))) == usual | {"unroll": 2}
    assert schedule_of() == usual
    require = {"tuning": file, "cache": "require"}
    assert schedule_of(**require) == usual | {"unroll": 2}
    write(file, name, {"unroll": 8})
    with pytest.raises(stepwell.StepwellError, match="is not in the cache"):
        schedule_of(**require)


def test_of_several_files_in_a_folder_the_greater_gain_wins(tmp_path) -> None:
    name = kernel()
    write(tmp_path / "a.tuning.json", name, {"unroll": 1}, gain=1.5)
    write(tmp_path / "b.tuning.json", name, {"unroll": 2}, gain=1.1)
    write(tmp_path / "c.tuning.json", name, {"unroll": 8}, gain=9.0, compiler="0.0.1")
    assert schedule_of(tuning=tmp_path)["unroll"] == 1


def test_entries_for_other_kernels_and_versions_change_nothing(tmp_path) -> None:
    usual = schedule_of()
    assert schedule_of(tuning=write(tmp_path / "a.json", "kernel_of_others", {"unroll": 1})) == usual
    assert schedule_of(tuning=write(tmp_path / "b.json", kernel(), {"unroll": 1}, compiler="0.0.1")) == usual


def test_results_are_the_same(tmp_path) -> None:
    x = np.random.default_rng(0).random((64, 32), np.float32)
    options = {"tuning": write(tmp_path / "a.json", kernel(), {"unroll": 1, "blocks": [4, 0]})}
    for threads in (1, 2):
        np.testing.assert_array_equal(
            stepwell.compile(MODEL, threads=threads, options=options)(x), stepwell.compile(MODEL)(x)
        )


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (None, "No such file"),
        ("{", "not a file of tuned kernels"),
        ("[]", "not a file of tuned kernels"),
        ('{"schema": 9}', "it has schema 9, not 1"),
        ('{"schema": 1, "compiler": "1", "machine": "", "kernels": [{"kernel": "k"}]}', "not a file of tuned kernels"),
        (
            '{"schema": 1, "compiler": "1", "machine": "", "kernels": [{"kernel": "k", "schedule": {"unroll": 1.5},'
            ' "gain": 1, "low": 1, "high": 1, "threads": 1}]}',
            "1.5 is not a parameter of a schedule",
        ),
    ],
)
def test_damaged_files_are_refused(contents, said, tmp_path) -> None:
    file = tmp_path / "a.json"
    if contents is not None:
        file.write_text(contents)
    with pytest.raises(stepwell.OptionError) as caught:
        stepwell.Options(tuning=file)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_folder_and_other_types_are_refused(tmp_path) -> None:
    with pytest.raises(stepwell.OptionError, match=r"has no file \*.tuning.json"):
        stepwell.Options(tuning=tmp_path)
    with pytest.raises(stepwell.OptionError, match="tuning is 3, and must be a path, or None"):
        stepwell.Options(tuning=3)  # type: ignore[arg-type]


def test_a_schedule_that_does_not_fit_names_the_kernel(tmp_path) -> None:
    file = write(tmp_path / "a.json", kernel(), {"blocks": "many"})
    with pytest.raises(stepwell.StepwellError, match="kernel @kernel_"):
        stepwell.compile(MODEL, options={"tuning": file, "cache": False})
