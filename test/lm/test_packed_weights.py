"""Packed weights are the same in all programs of a model, so that they can share memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stepwell.lm import load
from stepwell.lm.page_sizes import prompt_lengths
from stepwell.lm.text_states import CHUNK

from .decoders import written


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0"])
def test_programs_share_packed_weights(tmp_path: Path, kind: str) -> None:
    model = load(written(tmp_path, kind=kind), threads=1, sequences=8, lookup=4)
    assert model.together is not None and model.checking is not None
    programs = [program for each in (model.executable, model.together, model.checking) for program in each.programs]
    lengths = prompt_lengths(model.context, min(CHUNK, model.context), is_alike=False)
    assert len(programs) == len(lengths) + 2
    first, *others = (
        dict(item for item in program.parameters.items() if item[0].startswith("blk")) for program in programs
    )
    assert any("numbers" in name for name in first)
    for other in others:
        assert other.keys() == first.keys()
        assert all(np.array_equal(array, first[name]) for name, array in other.items())
