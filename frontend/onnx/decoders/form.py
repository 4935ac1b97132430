"""The inputs and outputs of an ONNX decoder by what they mean, as exporters name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...decoder_step import CachedRows, step_info
from ...errors import ModelError
from ...imported import ModelInfo, ValueInfo

_ROLES = {
    "tokens": ("input_ids",),
    "mask": ("attention_mask",),
    "positions": ("position_ids",),
    "branch": ("use_cache_branch",),
    "last": ("seqlens_k", "past_seq_len", "past_sequence_length"),
    "total": ("total_sequence_length", "total_seq_len"),
}
"""Names of inputs other than caches, by what they mean: whether a merged file takes the branch with a past, the index
of each text's last key, and the number of keys of the longest text."""

_SETTINGS = {
    "input_ids": "tokens",
    "attention_mask": "mask",
    "position_ids": "positions",
    "past_sequence_length": "last",
    "total_sequence_length": "total",
}
"""Roles of inputs, by their names in `genai_config.json`."""

_USUAL = {"past": "past_key_values.%d.", "present": "present.%d."}
"""Names of inputs and outputs with keys and values, up to the part."""

_FLOATS = ("float32", "float16", "bfloat16")
"""Types of elements of keys and values."""

_HOW = "export it with a cache of keys and values (optimum: the task text-generation-with-past)"


@dataclass(frozen=True)
class CachePort:
    """The input with keys or values of past tokens, and the output with those of all tokens.

    Attributes:
        past: the name of the input.
        present: the name of the output.
        rows: the keys or values after the import.
    """

    past: str
    present: str
    rows: CachedRows


@dataclass(frozen=True)
class DecoderForm:
    """The inputs and outputs of a decoder by what they mean.

    Attributes:
        roles: for each other input its role; see `_ROLES`.
        caches: keys and values, layer by layer.
        logits: the name of the output with logits.
        vocabulary: number of tokens; None if it is not declared.
    """

    roles: dict[str, ValueInfo]
    caches: tuple[CachePort, ...]
    logits: str
    vocabulary: int | None

    @classmethod
    def of(cls, info: ModelInfo, names: Mapping[str, str]) -> DecoderForm:
        """Recognises the inputs and outputs of a file.

        Args:
            info: those that it declares.
            names: names by those in `genai_config.json`.

        Raises:
            ModelError: one is missing, or has no known meaning.
        """
        known = {name: role for role, usual in _ROLES.items() for name in usual}
        known |= {names[setting]: role for setting, role in _SETTINGS.items() if setting in names}
        inputs, presents = _caches(info.inputs, "past", names), _caches(info.outputs, "present", names)
        roles: dict[str, ValueInfo] = {}
        for item in info.inputs:
            if item in inputs.values():
                continue
            if item.name.startswith("encoder_") or "cross" in item.name:
                raise ModelError(f"reads '{item.name}': it is a part of an encoder-decoder, not a decoder")
            role = known.get(item.name)
            if role is None or role in roles:
                usual = ", ".join(name for items in _ROLES.values() for name in items)
                raise ModelError(
                    f"has the input '{item.name}', whose meaning is not known; a decoder has past_key_values.*.key and "
                    f".value, and may have {usual}"
                )
            roles[role] = item
        if "tokens" not in roles:
            raise ModelError("has no input 'input_ids' with tokens; models of embeddings are not supported")
        if not inputs:
            raise ModelError(f"has no inputs with keys and values of past tokens (past_key_values.0.key): {_HOW}")
        missing = sorted(inputs.keys() - presents.keys())
        if missing:
            raise ModelError(f"has no output that continues '{inputs[missing[0]].name}': {_HOW}")
        logits = names.get("logits", "logits")
        output = next((item for item in info.outputs if item.name == logits), None)
        if output is None:
            raise ModelError(f"has no output '{logits}'; its outputs are {', '.join(o.name for o in info.outputs)}")
        caches = tuple(_port(place, inputs[place], presents[place].name) for place in sorted(inputs))
        width = output.dims[-1] if output.dims else None
        return cls(roles, caches, logits, width if isinstance(width, int) else None)

    def info(self, name: str) -> ModelInfo:
        """Returns the inputs and outputs of the decoder after the import, which are those of a step of a decoder."""
        return step_info(name, (port.rows for port in self.caches), self.vocabulary or "vocabulary")


def _caches(infos: tuple[ValueInfo, ...], when: str, names: Mapping[str, str]) -> dict[tuple[int, str], ValueInfo]:
    """Returns keys and values by layer and part."""
    found: dict[tuple[int, str], ValueInfo] = {}
    for part in ("key", "value"):
        before, _, after = names.get(f"{when}_{part}_names", f"{_USUAL[when]}{part}").partition("%d")
        pattern = re.compile(f"{re.escape(before)}(\\d+){re.escape(after)}")
        matches = ((pattern.fullmatch(item.name), item) for item in infos)
        found |= {(int(match[1]), part): item for match, item in matches if match is not None}
    return found


def _port(place: tuple[int, str], past: ValueInfo, present: str) -> CachePort:
    layer, part = place
    dims = past.dims or ()
    if len(dims) != 4 or not isinstance(dims[1], int) or not isinstance(dims[3], int):
        text = "nothing" if past.dims is None else f"[{', '.join(map(str, dims))}]"
        raise ModelError(
            f"input '{past.name}' is declared as {text}, and must be [batch, heads, past, depth] with numbers of heads "
            "and elements: export it with an exporter that declares them"
        )
    if past.dtype.name not in _FLOATS:
        raise ModelError(
            f"input '{past.name}' has elements of type {past.dtype}, and must have one of {', '.join(_FLOATS)}"
        )
    return CachePort(past.name, present, CachedRows(f"{layer}.{part}", dims[1], dims[3], past.dtype))
