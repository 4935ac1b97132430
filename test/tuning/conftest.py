"""Models in the phase `graph`, ready to be tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from stepwell.driver.options import Options
from stepwell.driver.setup import Setup
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.cache.cache import Cache
from stepwell.tuning.model import TunableModel, tunable_model


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., TunableModel]]:
    """Opens a model file of fixed shapes for the tuner."""
    with ExitStack() as stack:

        def open_model(path: Path, **options) -> TunableModel:
            setup = replace(
                Setup.of("cpu", Options(codegen_threads=1, **options)), cache=Cache(tmp_path / "candidates")
            )
            source = read_source(str(path))
            shapes = {info.name: info.shape for info in source.interface()[0]}
            return stack.enter_context(tunable_model(source, shapes, setup, {}))

        yield open_model
