"""Fixtures for several tests of real models."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file
from stepwell.bench.bert import make_bert

from .packaged import BERT


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2 as ONNX, with the package's trained weights."""
    path = tmp_path_factory.mktemp("minilm") / "minilm.onnx"
    path.write_bytes(make_bert(None, load_file(BERT)).SerializeToString())
    return path
