"""What all tests share: where the models of `requirements-models.txt` lie, how examples are drawn, markers."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Libraries start a thread for each core that they see, which wait for each other in loops. On a machine of many cores
# that others use too, that is most of what the tests would do.
if hasattr(os, "sched_setaffinity"):
    _CORES = sorted(os.sched_getaffinity(0))
    _FIRST = 2 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    with contextlib.suppress(OSError):  # where that is not allowed, the tests only take longer
        os.sched_setaffinity(0, {_CORES[(_FIRST + place) % len(_CORES)] for place in range(2)})

# What tests compile, they compile: nothing comes from a cache that other runs have filled. Processes of a run share it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="stepwell-tests-", ignore_cleanup_errors=True)
    os.environ["STEPWELL_CACHE_DIR"] = _CACHE.name

# Tests run the commands that are installed beside this Python, whether its environment is activated or not.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

# Code that reads memory before it writes it meets NaN there, and not what the last run left.
os.environ.setdefault("STEPWELL_POISON", "ff")

_ROOT = Path(__file__).parent.parent
_SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])

if (_SITE_PACKAGES / "silero_vad").is_dir():
    os.environ.setdefault("STEPWELL_TEST_MODELS", str(_SITE_PACKAGES))

# The same examples every time: whether a change is taken must not hang on chance. `explore` looks further.
settings.register_profile("stepwell", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stepwell"))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the collector of the checkout's folder, which is out of reach for hooks of this file."""
    config.pluginmanager.register(_Checkout(), "stepwell-checkout")


class _Checkout:
    """Collects the root of the checkout as a plain folder.

    It has an `__init__.py`, so pytest would import it as a package that is called like the folder. That fails if the
    name is no identifier (`stepwell-0.1.0`), and finds another package if there is one of this name (`json`).
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == _ROOT else None


_PASSES: dict[str, Any] = {}


def _hide_passes_of_other_files(module: str) -> None:
    """Leaves, of the passes that test files register, those of one file: a plug-in is a part of every cache key."""
    base = sys.modules.get("stepwell.passes.base")
    registered = {} if base is None else base._REGISTRY
    _PASSES.update({name: kind for name, kind in registered.items() if not kind.__module__.startswith("stepwell.")})
    for name, kind in _PASSES.items():
        registered.pop(name, None)
        if kind.__module__ == module:
            registered[name] = kind


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what the installed ONNX Runtime cannot be compared with; Python 3.10 gets an old one."""
    _hide_passes_of_other_files(getattr(getattr(item, "module", None), "__name__", ""))
    marker = item.get_closest_marker("needs_onnxruntime")
    if marker is not None and _numbers(version("onnxruntime")) < _numbers(marker.args[0]):
        pytest.skip(f"ONNX Runtime before {marker.args[0]} lacks this or gets it wrong")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])
