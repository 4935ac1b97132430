"""Broken artefacts: damaged bytes, and files whose parts are valid one by one but do not fit together.

The artefact is that of a small network, made once per process. The same number and code give the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import stepwell
from onnx import TensorProto, helper, numpy_helper

NUMBERS = (0, 1, -1, 2, 7, 1 << 31, 1 << 40, 1 << 63, -(1 << 63), 1.5, 1e308, True, None, "", "x", [], [1], {}, "../x")
MANIFEST = "manifest.json"
PARAMETERS = "parameters.safetensors"


def mutant(number: int) -> bytes:
    """Returns the mutant with this number."""
    rng = random.Random(number)
    return rng.choice(_CHANGES)(rng)


@functools.cache
def original() -> bytes:
    """A valid artefact: two programs of a network with weights, and the model itself."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": np.zeros(4, np.float32),
        "m": rng.standard_normal((4, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    for count in (1, 2):
        executable.prepare({"x": (count, 3, 6, 6)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.stw"
        executable.save(path, keep_model=True)
        return path.read_bytes()


def _damage(rng: random.Random) -> bytes:
    """Changes, cuts off, repeats or adds bytes."""
    data = bytearray(original())
    kind = rng.randrange(4)
    if kind == 0:
        for _ in range(rng.choice((1, 1, 8))):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        start = rng.randrange(len(data))
        data[start:start] = data[start : start + rng.randrange(1, 100)]
    else:
        data += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 50)))
    return bytes(data)


def _damage_directory(rng: random.Random) -> bytes:
    """Changes the central directory of the zip file."""
    data = bytearray(original())
    start = data.rindex(b"PK\x05\x06") - 400
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(start, len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(data)


def _change_manifest(rng: random.Random) -> bytes:
    members = _members()
    record = json.loads(members[MANIFEST])
    for _ in range(rng.choice((1, 1, 3))):
        _change_json(rng, record)
    members[MANIFEST] = json.dumps(record).encode()
    return _zipped(members)


def _break_manifest(rng: random.Random) -> bytes:
    members = _members()
    texts = (
        b"",
        b"null",
        b"[]",
        b"{",
        b"[" * 100_000,
        b"1" * 5000,
        b'{"schema": 1e999}',
        b"\xff\xfe",
        b'"' + b"a" * 99,
    )
    members[MANIFEST] = rng.choice(texts)
    return _zipped(members)


def _change_header(rng: random.Random) -> bytes:
    """Changes the header of the parameters' file, and corrects its checksum."""
    members = _members()
    data = members[PARAMETERS]
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for _ in range(rng.choice((1, 1, 3))):
        _change_json(rng, header)
    text = json.dumps(header).encode()
    size = len(text) if rng.random() < 0.9 else rng.choice((0, 1, 1 << 20, (1 << 64) - 1))
    members[PARAMETERS] = size.to_bytes(8, "little") + text + data[8 + length :]
    return _zipped(_with_checksums(members))


def _change_members(rng: random.Random) -> bytes:
    """Removes, renames, swaps, adds, duplicates or compresses members."""
    members = _members()
    name = rng.choice(list(members))
    kind = rng.randrange(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[rng.choice(("../../x", "/etc/x", "a\\b", "C:x", "a//b", "é"))] = members.pop(name)
    elif kind == 2:
        other = rng.choice(list(members))
        members[name], members[other] = members[other], members[name]
    elif kind == 3:
        members["more"] = bytes(10)
    if rng.random() < 0.5:
        members = _with_checksums(members)
    return _zipped(members, compressed=kind == 4, bomb=kind == 5)


def _change_model(rng: random.Random) -> bytes:
    """Replaces the model by another one, for which the code is wrong."""
    members = _members()
    members["model"] = rng.choice((b"", b"garbage", b"module {}", members["model"][: rng.randrange(100)]))
    return _zipped(_with_checksums(members))


def _change_json(rng: random.Random, record: Any) -> None:
    """Replaces, removes or duplicates one value somewhere inside."""
    places = [(record, key) for key in _keys(record)]
    for holder, key in list(places):
        places += _places(holder[key])
    if not places:
        return
    holder, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(holder[key])
    elif kind == 2 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    else:
        holder[key] = rng.choice(NUMBERS)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found = [(value, key) for key in _keys(value)]
    return found + [place for holder, key in found for place in _places(holder[key])]


def _keys(value: Any) -> list:
    return list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []


def _members() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(original())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _with_checksums(members: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the members with a manifest that agrees with their sizes and contents."""
    if MANIFEST not in members:
        return members
    try:
        record = json.loads(members[MANIFEST])
    except ValueError:  # the manifest is another member's data
        return members
    record["members"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != MANIFEST
    }
    return members | {MANIFEST: json.dumps(record).encode()}


def _zipped(members: dict[str, bytes], compressed: bool = False, bomb: bool = False) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compressed or bomb else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        if bomb:
            archive.writestr(MANIFEST if MANIFEST not in members else "bomb", bytes(1 << 28))
    return file.getvalue()


_CHANGES: tuple[Callable[[random.Random], bytes], ...] = (
    _damage,
    _damage,
    _damage_directory,
    _change_manifest,
    _change_manifest,
    _change_manifest,
    _break_manifest,
    _change_header,
    _change_header,
    _change_members,
    _change_members,
    _change_model,
)
