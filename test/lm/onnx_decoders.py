"""The tokens that ONNX Runtime chooses with an ONNX decoder, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")


def tokens_by_onnx_runtime(path: Path, prompt: Sequence[int], count: int) -> list[int]:
    """Returns the most probable next tokens, step by step with ONNX Runtime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    infos = {info.name: info for info in session.get_inputs()}
    pasts = [info for info in infos.values() if info.name.startswith("past_key_values.")]
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    state: dict[str, Any] = {i.name: np.empty((1, i.shape[1], 0, i.shape[3]), kinds[i.type]) for i in pasts}
    tokens, unread = list(prompt), list(prompt)
    for _ in range(count):
        given: dict[str, Any] = {"input_ids": np.array([unread]), **state}
        given["attention_mask"] = np.ones((1, len(tokens)), np.int64)
        given["position_ids"] = np.arange(len(tokens) - len(unread), len(tokens))[None]
        logits, *present = map(np.asarray, session.run(None, {name: given[name] for name in infos}))
        state = dict(zip(state, present, strict=True))
        unread = [int(logits[0, -1].argmax())]
        tokens += unread
    return tokens[len(prompt) :]
