"""The trained model of `make demo-lm` with other types of weights, and its twin whose keys and values have outliers."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

FOLDER = Path(__file__).parents[2] / "examples" / "models"
MODEL, HELD_OUT = FOLDER / "python-docs.gguf", FOLDER / "python-docs.txt"

OUTLIER = 10.0
"""Factor of the elements that become outliers."""

_OF_WRITER = ("GGUF.", "general.architecture", "general.quantization_version")
"""Beginnings of the names of settings that the writer adds."""


def rewritten(path: Path, kind: str = "F32", is_twin: bool = False) -> Path:
    """Writes the model with matrices of another type.

    Args:
        path: the file to write.
        kind: the type of the matrices.
        is_twin: whether the keys and values of each head have elements that are ten times as large. What reads them is
            ten times as small, so the function of the model stays the same.
    """
    reader = gguf.GGUFReader(MODEL)
    settings = {name: field.contents() for name, field in reader.fields.items() if not name.startswith(_OF_WRITER)}
    weights = {item.name: gguf.quants.dequantize(item.data, item.tensor_type) for item in reader.tensors}
    if is_twin:
        _add_outliers(weights, settings["llama.attention.head_count"], settings["llama.attention.head_count_kv"])
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in settings.items():
        writer.add_key_value(name, value, reader.fields[name].types[0], *reader.fields[name].types[1:2])
    own = gguf.GGMLQuantizationType[kind]
    for name, weight in weights.items():
        if weight.ndim > 1:
            writer.add_tensor(name, gguf.quants.quantize(weight, own), raw_dtype=own)
        else:
            writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_outliers(weights: dict[str, np.ndarray], heads: int, key_heads: int) -> None:
    shared = heads // key_heads
    for name in [item for item in weights if item.endswith("attn_k.weight")]:
        layer = name.removesuffix("attn_k.weight")
        queries, outputs = weights[f"{layer}attn_q.weight"], weights[f"{layer}attn_output.weight"]
        depth = len(weights[name]) // key_heads
        for head in range(key_heads):
            # Neighbouring elements are rotated together, so both of a pair are scaled.
            pair = slice(head * depth + 6, head * depth + 8)
            weights[name][pair] *= OUTLIER
            weights[f"{layer}attn_v.weight"][head * depth + 3] *= OUTLIER
            for query in range(head * shared, (head + 1) * shared):
                queries[query * depth + 6 : query * depth + 8] /= OUTLIER
                outputs[:, query * depth + 3] /= OUTLIER
