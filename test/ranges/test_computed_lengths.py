"""Lengths of sequences that a model computes from its inputs."""

from __future__ import annotations

import numpy as np
import onnxruntime
import stepwell

from .model_graphs import cached_attention

_DIMS = {"n": (1, 3), "length": (1, 5), "past": (0, 20), "total": "past + length"}


def test_attention_with_a_cache_of_lengths_that_are_computed():
    model = cached_attention()
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(dims=_DIMS, cache=False, fallback="error"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for n, length, past, hidden in (
        (1, 1, 0, 0),
        (1, 5, 0, 0),
        (3, 4, 0, 2),
        (2, 1, 20, 3),
        (3, 1, 7, 7),
        (1, 3, 5, 0),
    ):
        mask = np.ones((n, past + length), np.int64)
        mask[0, past + length - hidden :] = 0
        cache = {name: rng.standard_normal((n, 2, past, 16), np.float32) for name in ("past_keys", "past_values")}
        feed = {"x": rng.standard_normal((n, length, 16), np.float32), "mask": mask, **cache}
        wanted = [np.asarray(array) for array in session.run(None, feed)]
        found = executable(**feed)
        for sequence, count in enumerate(mask.sum(1)):
            rows = count if past == 0 else length  # those behind a prompt are padding
            np.testing.assert_allclose(found[0][sequence, :rows], wanted[0][sequence, :rows], rtol=1e-5, atol=1e-5)
        for own, other in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5, strict=True)
    assert not executable.unranged
