"""Models whose graphs are tuned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from stepwell.driver.options import Options
from stepwell.driver.setup import Setup
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.cache.cache import Cache
from stepwell.tuning.graph.model import GraphModel, graph_model


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """A setup with a cache of its own."""
    return replace(Setup.of("cpu", Options(codegen_threads=1)), cache=Cache(tmp_path / "candidates"))


@pytest.fixture
def graph_of(setup: Setup) -> Callable[..., GraphModel]:
    """Opens a model file of fixed shapes for the tuner of graphs."""

    def open_graph(path: Path, **options) -> GraphModel:
        source = read_source(str(path))
        shapes = {info.name: info.shape for info in source.interface()[0]}
        return graph_model(source, shapes, setup, {}, **options)

    return open_graph
