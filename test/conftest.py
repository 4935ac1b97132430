"""Configuration of all tests: paths of the models in `requirements-models.txt`, Hypothesis profiles, markers."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Libraries start a thread for each core that they see, and these threads spin while they wait for each other. On a
# shared machine with many cores, the tests would spend most of their time on that.
if hasattr(os, "sched_setaffinity"):
    _CORES = sorted(os.sched_getaffinity(0))
    _FIRST = 2 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    with contextlib.suppress(OSError):  # if this is not allowed, the tests only take longer
        os.sched_setaffinity(0, {_CORES[(_FIRST + place) % len(_CORES)] for place in range(2)})

# Tests compile everything themselves: no cache of an earlier run is read. The processes of one run share a cache.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="stepwell-tests-", ignore_cleanup_errors=True)
    os.environ["STEPWELL_CACHE_DIR"] = _CACHE.name

# Tests run the commands that are installed beside this Python, whether or not its environment is activated.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

# Code that reads memory before it writes it gets NaN, instead of leftovers of the last run.
os.environ.setdefault("STEPWELL_POISON", "ff")

_ROOT = Path(__file__).parent.parent
_SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])

if (_SITE_PACKAGES / "silero_vad").is_dir():
    os.environ.setdefault("STEPWELL_TEST_MODELS", str(_SITE_PACKAGES))

# The same examples every time: no change may pass or fail by chance. `explore` searches further. Tests whose examples
# compile run a fraction of a profile's examples.
settings.register_profile("stepwell", derandomize=True, deadline=None)
settings.register_profile("all", max_examples=250, derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stepwell"))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the collector of the checkout's folder, which hooks of this file do not reach."""
    config.pluginmanager.register(_Checkout(), "stepwell-checkout")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the cases of a test `sweep` beyond the number that its marker `few` names; those that stay are spread."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        kept = set(spread(len(same), same[0].get_closest_marker("few").args[0]))
        for place, item in enumerate(same):
            if place not in kept:
                item.add_marker("sweep")


def spread(count: int, kept: int) -> list[int]:
    """Returns places among `count` cases, spread so that each value of several parameters occurs (golden ratio)."""
    step = next(step for step in range(max(1, round(count * 0.618)), count + 2) if math.gcd(step, count) == 1)
    return [place * step % count for place in range(min(kept, count))]


def pytest_collection_finish() -> None:
    """Spares the garbage collector the modules and the tests, which live to the end: it would visit them each time."""
    gc.collect()
    gc.freeze()


class _Checkout:
    """Collects the root of the checkout as a plain folder.

    It has an `__init__.py`, so pytest would import it as a package named like the folder. That fails if the name is
    not an identifier (`stepwell-0.1.0`), and finds another package if there is one of this name (`json`).
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == _ROOT else None


_PASSES: dict[str, Any] = {}


def _hide_passes_of_other_files(module: str) -> None:
    """Hides passes that other test files register: every plug-in pass is a part of all cache keys."""
    base = sys.modules.get("stepwell.passes.infra.base")
    registered = {} if base is None else base._REGISTRY
    _PASSES.update({name: kind for name, kind in registered.items() if not kind.__module__.startswith("stepwell.")})
    for name, kind in _PASSES.items():
        registered.pop(name, None)
        if kind.__module__ == module:
            registered[name] = kind


def _limit_processes(item: pytest.Item) -> None:
    """Lets a compile take one process, except in tests marked `workers`: the tests occupy all processors already."""
    from stepwell.driver.workers import worker_pool
    from stepwell.support.cores import available_cores

    is_limited = item.get_closest_marker("workers") is None
    worker_pool.available_cores = (lambda: 1) if is_limited else available_cores


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips comparisons that the installed ONNX Runtime is too old for; Python 3.10 gets an old version."""
    _hide_passes_of_other_files(getattr(getattr(item, "module", None), "__name__", ""))
    _limit_processes(item)
    marker = item.get_closest_marker("needs_onnxruntime")
    if marker is not None and _numbers(version("onnxruntime")) < _numbers(marker.args[0]):
        pytest.skip(f"ONNX Runtime before {marker.args[0]} lacks this or gets it wrong")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])
