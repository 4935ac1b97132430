"""Steps of decoders in ranges of sizes: keys and values of the past are inputs, and outputs with data appended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import stepwell
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from stepwell.bench.decoder import DecoderConfig, make_decoder
from stepwell.support.errors import InputError

_DIMS = {"batch": (1, 3), "past": (0, 45)}
_LENGTHS = (1, 3, 6)
"""Most new tokens in a call: one, few that are computed one by one, and more."""

_SMALL = {"vocabulary": 40, "positions": 64, "layers": 1, "hidden": 64, "intermediate": 32, "computes_mask": False}
_HEADS = (4, 2, 1)
_ALONE = {(4, 3), (2, 1), (1, 6)}
_COMBINED = [
    pytest.param(heads, most, marks=() if (heads, most) in _ALONE else pytest.mark.sweep)
    for heads in _HEADS
    for most in _LENGTHS
]
"""All pairs of heads and lengths; those in `_ALONE` have each value once."""


@cache
def _both(key_heads: int, most: int) -> tuple[stepwell.Executable, stepwell.Executable]:
    """The step compiled for ranges, and for each size."""
    model = make_decoder(DecoderConfig(**_SMALL, heads=4, key_heads=key_heads))
    options = [
        stepwell.Options(dims={**_DIMS, "length": [most]}, cache=False),
        stepwell.Options(cache=False, ranges=False),
    ]
    ranged, alone = (stepwell.compile(model, threads=1, options=item) for item in options)
    return ranged, alone


def _inputs(run: stepwell.Executable, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    named = {**sizes, "past + length": sizes["past"] + sizes["length"]}
    found = {}
    for info in run.inputs:
        shape = [named[dim] if isinstance(dim, str) else dim for dim in info.shape]
        is_float = info.dtype == np.float32
        found[info.name] = rng.standard_normal(shape, np.float32) if is_float else rng.integers(0, 40, shape)
    hidden = rng.random(found["attention_mask"].shape) < 0.2
    hidden[..., -1] = False
    found["attention_mask"][hidden] = -np.inf
    return found


def _strided(array: np.ndarray, room: int) -> np.ndarray:
    """The same contents as part of an array with room for more keys, of which the rest is NaN."""
    shape = list(array.shape)
    shape[2] += room
    whole = np.full(shape, np.nan, np.float32)
    whole[:, :, : array.shape[2]] = array
    return whole[:, :, : array.shape[2]]


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore::stepwell.support.errors.SlowWarning")
@pytest.mark.parametrize(("key_heads", "most"), _COMBINED)
@settings(max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # examples compile: no shrinking
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 6),
    past=st.integers(0, 45),
    room=st.lists(st.integers(0, 9), min_size=2, max_size=2),
)
def test_a_step_is_equal_to_one_for_its_sizes_whatever_the_layout(
    key_heads: int, most: int, batch: int, length: int, past: int, room: list[int]
):
    ranged, alone = _both(key_heads, most)
    length = min(length, most)
    assert ranged.programs[0].bounds is not None
    inputs = _inputs(ranged, {"batch": batch, "length": length, "past": past})
    wanted = alone(**inputs)
    given = {
        name: _strided(array, room["value" in name]) if name.startswith("past") else array
        for name, array in inputs.items()
    }
    for found, expected in zip(ranged(**given), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_outputs_of_steps_are_the_past_of_the_next_ones():
    """Outputs are parts of larger arrays; earlier ones stay as they are."""
    ranged, _ = _both(4, 3)
    past = _inputs(ranged, {"batch": 2, "length": 1, "past": 0})
    held, kept = {}, []
    for step in range(20):
        inputs = _inputs(ranged, {"batch": 2, "length": 1, "past": step}, seed=step) | held
        _, *present = ranged(**inputs)
        names = [name for name in past if name.startswith("past.")]
        held = dict(zip(names, present, strict=True))
        kept.append([array.copy() for array in present])
        for name, array in held.items():
            np.testing.assert_array_equal(array[:, :, :step], inputs[name])
    assert not held["past.0.key"].flags.c_contiguous
    for array, earlier in zip(held.values(), kept[-1], strict=True):
        np.testing.assert_array_equal(array, earlier)


def test_two_pasts_of_different_layouts_are_both_read():
    ranged, _ = _both(4, 3)
    inputs = _inputs(ranged, {"batch": 2, "length": 2, "past": 9})
    expected = ranged(**inputs)
    inputs["past.0.key"] = inputs["past.0.key"].transpose(1, 0, 3, 2).copy().transpose(1, 0, 3, 2)
    for found, wanted in zip(ranged(**inputs), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_state_is_updated_in_place():
    ranged, _ = _both(4, 3)
    state = ranged.state({"batch": 2})
    assert state.names["present.0.key"] == "past.0.key"
    past: dict[str, np.ndarray] = dict(state.arrays)
    addresses = set()
    for length in (3, 1, 2, 1, 1, 3, 1, 1):
        inputs = _inputs(ranged, {"batch": 2, "length": length, "past": state.length}, seed=length) | past
        wanted = ranged(**inputs)
        logits = state(**{name: array for name, array in inputs.items() if name not in past})
        np.testing.assert_array_equal(logits, wanted[0])
        past = {state.names[info.name]: array for info, array in zip(ranged.outputs[1:], wanted[1:], strict=True)}
        for name, array in state.arrays.items():
            np.testing.assert_array_equal(array, past[name])
        addresses.add(state.arrays["past.0.key"].ctypes.data)
    assert state.length == 13 and len(addresses) <= len(ranged.programs)
    state.truncate(5)
    again = _inputs(ranged, {"batch": 2, "length": 1, "past": 5})
    past = {name: array[:, :, :5].copy() for name, array in past.items()}
    wanted = ranged(**again | past)
    logits = state(**{name: array for name, array in again.items() if name not in past})
    np.testing.assert_array_equal(logits, wanted[0])
    state.reset()
    assert state.length == 0


def test_errors_of_states_say_what_is_missing():
    ranged, alone = _both(4, 3)
    with pytest.raises(InputError, match=r"the state needs the size of dimension 'batch' of input past\.0\.key"):
        ranged.state()
    with pytest.raises(InputError, match=r"declare the ranges in `Options\.dims`"):
        alone.state({"batch": 1})
    state = ranged.state({"batch": 1})
    with pytest.raises(InputError, match="a call of the state takes input_ids: int64"):
        state(past=np.zeros(3))
    with pytest.raises(InputError, match="the state has 0 elements, so it cannot be cut to 4"):
        state.truncate(4)
