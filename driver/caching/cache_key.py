"""Cache keys, which keep their parts so that the nearest entry can explain a cache miss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...runtime.cache.cache import Cache
from ...runtime.cache.keys import key_of
from ...support.errors import RuntimeFailure

_KIND = "keys"
# Weights of equal parts in the similarity of two keys: other shapes of the same model are nearer than another model.
_WEIGHTS = {"model": 32, "target": 16, "machine": 8, "element_types": 4, "options": 4, "plugins": 4, "compiler": 2}


class CacheMissError(RuntimeFailure):
    """Code is not in the cache and must not come from elsewhere; the message lists the differences."""


@dataclass(frozen=True)
class CacheKey:
    """Everything that determines the generated code; equal keys give equal code.

    Attributes:
        name: name of the model; not part of the key.
        compiler: version of the compiler, and a digest of its sources.
        model: digest of the model and of the files that belong to it.
        target: target of the code.
        machine: instruction sets of this machine, if the target is this machine.
        options: compile options.
        plugins: modules of other packages that take part, each with a digest of its code.
        element_types: element types of the inputs of a part of a model.
        shapes: shapes of the inputs; "" if `sizes` is given instead.
        sizes: ranges of dimensions that the code serves.
        contents: digest of the contents of some inputs.
    """

    name: str
    compiler: str
    model: str
    target: str
    machine: str = ""
    options: str = ""
    plugins: str = ""
    element_types: str = ""
    shapes: str = ""
    sizes: str = ""
    contents: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """The parts of the key, by name."""
        return {name: text for name, text in vars(self).items() if name != "name"}

    @property
    def digest(self) -> str:
        """The name of the entry."""
        return key_of(*self.parts.values())

    def differences(self, other: CacheKey) -> dict[str, tuple[str, str]]:
        """Returns the parts that differ, as (own, other)."""
        theirs = other.parts
        return {name: (text, theirs[name]) for name, text in self.parts.items() if text != theirs[name]}


def remember(cache: Cache, key: CacheKey) -> None:
    """Stores the key of an entry beside the entry."""
    cache.put(_KIND, key.digest, json.dumps(vars(key)).encode())


def remembered(cache: Cache) -> Iterator[CacheKey]:
    """Yields the keys of the programs in the cache."""
    for entry in cache.entries():
        if entry.kind == _KIND and cache.has("programs", entry.key):
            data = cache.get(_KIND, entry.key)
            if data is not None:
                yield CacheKey(**json.loads(bytes(data)))


def nearest(cache: Cache, key: CacheKey) -> CacheKey | None:
    """Returns the entry that has most in common with `key`; None if no entry has its model or name."""
    candidates = [other for other in remembered(cache) if other.model == key.model or other.name == key.name]
    return max(candidates, key=lambda other: _similarity(key.differences(other)), default=None)


def miss(cache: Cache, key: CacheKey) -> CacheMissError:
    """Returns the error for a `key` that is not in the cache."""
    other = nearest(cache, key)
    if other is None:
        reason = "the cache has nothing of this model"
    else:
        reason = (
            "; ".join(
                f"{name} {_text(here)}, the nearest entry has {_text(there)}"
                for name, (here, there) in key.differences(other).items()
            )
            or "the entry is damaged"
        )
    where = key.shapes or key.sizes
    return CacheMissError(f"{key.name}{f' at {where}' if where else ''} is not in the cache, but must be: {reason}")


def _similarity(differences: Mapping[str, object]) -> int:
    return sum(weight for part, weight in _WEIGHTS.items() if part not in differences) - len(differences)


def _text(part: str) -> str:
    return f"'{part}'" if part else "none"
