"""Explanations of cache hits and misses: misses by each part of the key, misses as errors, tidying."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell import Options
from stepwell.driver.caching.cache_key import nearest
from stepwell.explain.cache import Answer, entries_of, explain_cache
from stepwell.runtime.cache.cache import Cache
from stepwell.tools.cache import main

X = np.ones((2, 4), np.float32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("STEPWELL_CACHE", raising=False)
    return Cache(tmp_path / "cache")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return _save(tmp_path / "model.onnx", "Exp")


def _save(path: Path, op: str) -> str:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "graph", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


def _ask(cache: Cache, path: str, rows: int = 2, target: str = "cpu", options: Options | None = None) -> Answer:
    (answer,) = explain_cache(cache, path, [{"x": (rows, 4)}], target, options or Options())
    return answer


def test_what_was_compiled_is_a_hit(cache: Cache, path: str) -> None:
    assert not _ask(cache, path).is_hit
    stepwell.compile(path)(X)
    assert _ask(cache, path).is_hit
    assert [key.shapes for key in entries_of(cache, path)] == ["x=2x4"]


def test_a_miss_names_what_differs(cache: Cache, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stepwell.compile(path)(X)
    assert _ask(cache, path, rows=3).differences == {"shapes": ("x=3x4", "x=2x4")}
    assert set(_ask(cache, path, target="x86-64-v3").differences) == {"target", "machine"}
    assert set(_ask(cache, path, options=Options(winograd=False)).differences) == {"options"}
    monkeypatch.setattr("stepwell.driver.caching.program_cache.fingerprint", lambda: "other")
    assert set(_ask(cache, path).differences) == {"compiler"}


def test_another_model_of_that_name_is_the_nearest(cache: Cache, path: str) -> None:
    stepwell.compile(path)(X)
    _save(Path(path), "Neg")
    assert set(_ask(cache, path).differences) == {"model"}
    assert _ask(cache, _save(Path(path).with_name("other.onnx"), "Sin")).nearest is None


def test_the_nearest_entry_is_of_the_same_model(cache: Cache, path: str) -> None:
    stepwell.compile(path)(X)
    stepwell.compile(path)(np.ones((5, 4), np.float32))
    stepwell.compile(path, target="x86-64-v3")(X)
    key = _ask(cache, path, rows=7).key
    found = nearest(cache, key)
    assert found is not None and set(key.differences(found)) == {"shapes"}


def test_ranges_of_sizes_are_explained_too(cache: Cache, path: str) -> None:
    options = Options(dims={"rows": (1, 9)})
    asked = explain_cache(cache, path, [{}], "cpu", options)
    assert asked and not any(answer.is_hit for answer in asked)
    stepwell.compile(path, options=options)
    assert all(answer.is_hit for answer in explain_cache(cache, path, [{}], "cpu", options))
    (other, *_) = explain_cache(cache, path, [{}], "cpu", Options(dims={"rows": (1, 10)}))
    assert "sizes" in other.differences


def test_an_entry_without_its_code_is_not_an_entry(cache: Cache, path: str) -> None:
    stepwell.compile(path)(X)
    for entry in list(cache.entries()):
        if entry.kind == "programs":
            entry.path.unlink()
    assert not _ask(cache, path).is_hit and _ask(cache, path).nearest is None


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_miss_can_be_an_error(cache: Cache, path: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stepwell.compile(path)(X)
    if way == "environment":
        monkeypatch.setenv("STEPWELL_CACHE", "require")
    run = stepwell.compile(path, options=Options(cache="require" if way == "option" else True))
    np.testing.assert_allclose(run(X), np.exp(X), rtol=1e-6)
    with pytest.raises(stepwell.CacheMissError, match=r"at x=3x4 is not in the cache.*the nearest entry has 'x=2x4'"):
        run(np.ones((3, 4), np.float32))
    with pytest.raises(stepwell.CacheMissError, match="rows=1 to 9"):
        stepwell.compile(path, options=Options(cache="require", dims={"rows": (1, 9)}))


def test_an_unknown_setting_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cache is 'always'"):
        stepwell.compile(path, options=Options(cache="always"))


@pytest.mark.parametrize("text", ["bogus", "requiered", "2"])
def test_an_unknown_value_of_the_variable_is_refused(path: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CACHE", text)
    with pytest.raises(stepwell.InputError, match=f"STEPWELL_CACHE is '{text}', and must be one of 0, off, .*require"):
        stepwell.compile(path)


def test_the_command_explains(cache: Cache, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", path, "--shape", "x=2x4"]) == 1
    assert "nothing of this model" in capsys.readouterr().out
    stepwell.compile(path)(X)
    assert main(["explain", path, "--shape", "x=2x4"]) == 0
    assert "hit" in capsys.readouterr().out
    assert main(["explain", path, "--shape", "x=3x4"]) == 1
    assert "code of this model for: x=2x4" in capsys.readouterr().out
    assert main(["explain", path, "--shape", "x=3x4", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["hit"]) == (1, False)
    assert record["programs"][0]["differences"] == {"shapes": {"here": "x=3x4", "nearest": "x=2x4"}}
    assert main(["explain", path]) == 1
    assert "no fixed shape" in capsys.readouterr().err


def test_gc_keeps_what_was_used_last(cache: Cache, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        cache.put("kernels", f"key{number}", bytes(1000))
        path = cache.folder / "kernels" / "ke" / f"key{number}"
        os.utime(path, (number, number))
    assert main(["gc", "--max-size", "4K", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == 5
    assert sorted(entry.key for entry in cache.entries()) == ["key5", "key6", "key7"]
    with pytest.raises(SystemExit, match="2"):
        main(["gc", "--max-size", "much"])


@pytest.mark.parametrize("action", ["list", "verify", "clear"])
def test_every_action_speaks_json(cache: Cache, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    cache.put("kernels", "key", b"code")
    assert main([action, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1
