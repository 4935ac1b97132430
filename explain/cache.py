"""Explains whether code for a model is in the cache, and if not, how the nearest entry differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..driver.api import interface_of, specializer_of
from ..driver.caching.cache_key import CacheKey, nearest, remembered
from ..driver.options import Options
from ..driver.serving.specializer import Specializer
from ..driver.setup import Setup
from ..driver.sources.reading import read_source
from ..runtime.artefact import store
from ..runtime.cache.cache import Cache
from ..runtime.program import Shape, TensorInfo
from ..runtime.specialization.interfaces import ByContents
from ..sizes.buckets import parse_dims
from ..sizes.dims_option import resolve_dims
from ..support.errors import InputError


@dataclass(frozen=True)
class Answer:
    """The cache's answer for one program.

    Attributes:
        key: the parts that identify the program.
        is_hit: whether it is in the cache.
        nearest: the entry that has most in common with it, if it is not.
    """

    key: CacheKey
    is_hit: bool
    nearest: CacheKey | None = None

    @property
    def differences(self) -> dict[str, tuple[str, str]]:
        """The parts of the key in which the nearest entry differs: requested, and cached."""
        return {} if self.nearest is None else self.key.differences(self.nearest)

    def record(self) -> dict[str, Any]:
        """The answer as a record, as docs/cache.md describes it."""
        return {
            "hit": self.is_hit,
            "key": self.key.digest,
            "parts": self.key.parts,
            "nearest": None if self.nearest is None else self.nearest.digest,
            "differences": {name: {"here": here, "nearest": there} for name, (here, there) in self.differences.items()},
        }


def explain_cache(
    cache: Cache,
    model: Any,
    shape_sets: Sequence[Mapping[str, Shape]],
    target: str,
    options: Options,
    contents: Mapping[str, np.ndarray] | None = None,
) -> list[Answer]:
    """Looks up each program of a model in the cache, without compiling.

    Args:
        cache: the cache.
        model: as `stepwell.compile` takes it.
        shape_sets: sets of input shapes; inputs of fixed shape need none.
        target: as `stepwell.compile` takes it.
        options: the options of the compile; `dims` stand for the programs of all their buckets.
        contents: contents of some inputs; they count if an entry of the same model and shapes depends on contents.

    Raises:
        ModelError, SourceError: the model cannot be read.
        InputError: an input has no shape, or sizes are wrong.
    """
    source = replace(read_source(model), cache=cache)
    _, inputs, _ = interface_of(source)
    specializer = specializer_of(source, inputs, Setup.of(target, options))
    if options.dims:
        resolved = resolve_dims(options.dims, inputs)
        setup = specializer.setup
        _, buckets = parse_dims(resolved.dims, resolved.inputs, resolved.derived, setup.divides_ranges)
        keys = specializer.cached.keys_of_buckets(buckets, resolved.derived)
    else:
        keys = [_key(cache, specializer, inputs, _shapes(inputs, shapes), contents or {}) for shapes in shape_sets]
    return [_answer(cache, key) for key in keys]


def _key(
    cache: Cache,
    specializer: Specializer,
    inputs: Sequence[TensorInfo],
    shapes: tuple[Shape, ...],
    given: Mapping[str, np.ndarray],
) -> CacheKey:
    """Returns the key for shapes, and for those contents that an entry declares to matter."""
    held: dict[int, np.ndarray] = {}
    while True:
        key = specializer.cached.key(shapes, held)
        known = store.get_program(cache, key.digest)
        if not isinstance(known, ByContents):
            return key
        missing = [inputs[index].name for index in known.positions if inputs[index].name not in given]
        if missing:
            raise InputError(f"input '{missing[0]}' must be given with its contents (--input): {known.reason}")
        held |= {index: given[inputs[index].name] for index in known.positions}


def entries_of(cache: Cache, model: Any) -> list[CacheKey]:
    """Returns all entries of a model, for any shapes, targets and versions of the compiler.

    Raises:
        SourceError: the model cannot be read.
    """
    digest = replace(read_source(model), cache=cache).fingerprint
    return [key for key in remembered(cache) if key.model == digest]


def _answer(cache: Cache, key: CacheKey) -> Answer:
    if cache.get("programs", key.digest) is not None:
        return Answer(key, is_hit=True)
    return Answer(key, is_hit=False, nearest=nearest(cache, key))


def _shapes(inputs: Sequence[TensorInfo], given: Mapping[str, Shape]) -> tuple[Shape, ...]:
    open_inputs = [info for info in inputs if info.name not in given and not info.is_static]
    if open_inputs:
        raise InputError(f"input '{open_inputs[0].name}' has no fixed shape: {open_inputs[0]}")
    return tuple(given.get(info.name, tuple(int(dim) for dim in info.shape if isinstance(dim, int))) for info in inputs)
