"""What code in the cache was made from, part by part: so that a miss can be explained by the nearest entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from .cache import Cache
from .errors import RuntimeFailure
from .store import key_of

_KIND = "keys"
# By how much a part says that two entries are akin: other shapes of the same model are nearer than another model.
_KINSHIP = {"model": 32, "target": 16, "machine": 8, "element_types": 4, "options": 4, "plugins": 4, "compiler": 2}


class CacheMissError(RuntimeFailure):
    """Code is not in the cache, and may come from nowhere else; the message says what is different there."""


@dataclass(frozen=True)
class CacheKey:
    """Everything that decides what code is made; equal keys give equal code.

    Attributes:
        name: what the model is called; not part of the key.
        compiler: the compiler's version, and a digest of its sources.
        model: a digest of the model, and of the files that belong to it.
        target: what the code is for.
        machine: the instruction sets of this machine, where the target is this machine.
        options: how to compile.
        plugins: the code of other packages that takes part, each module with a digest.
        element_types: of the inputs of a piece of a model.
        shapes: of the inputs; "" where `sizes` says more.
        sizes: the ranges of dimensions that the code serves.
        contents: a digest of what some inputs hold.
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
        """What the key is made of, by name."""
        return {name: text for name, text in asdict(self).items() if name != "name"}

    @property
    def digest(self) -> str:
        """Names the entry."""
        return key_of(*self.parts.values())

    def differences(self, other: CacheKey) -> dict[str, tuple[str, str]]:
        """The parts that are not the same, here and there."""
        theirs = other.parts
        return {name: (text, theirs[name]) for name, text in self.parts.items() if text != theirs[name]}


def remember(cache: Cache, key: CacheKey) -> None:
    """Keeps what an entry was made from beside it."""
    cache.put(_KIND, key.digest, json.dumps(asdict(key)).encode())


def remembered(cache: Cache) -> Iterator[CacheKey]:
    """What the programs in the cache were made from."""
    for entry in cache.entries():
        if entry.kind == _KIND and cache.has("programs", entry.key):
            data = cache.get(_KIND, entry.key)
            if data is not None:
                yield CacheKey(**json.loads(bytes(data)))


def nearest(cache: Cache, key: CacheKey) -> CacheKey | None:
    """The entry that has most in common with `key`; None where none is of its model or name."""
    akin = [other for other in remembered(cache) if other.model == key.model or other.name == key.name]
    return max(akin, key=lambda other: _kinship(key.differences(other)), default=None)


def miss(cache: Cache, key: CacheKey) -> CacheMissError:
    """The error that there is no code for `key`."""
    other = nearest(cache, key)
    if other is None:
        reason = "nothing of this model is there"
    else:
        reason = (
            "; ".join(
                f"{name} {_text(here)}, the nearest entry has {_text(there)}"
                for name, (here, there) in key.differences(other).items()
            )
            or "the entry is damaged"
        )
    where = key.shapes or key.sizes
    return CacheMissError(f"{key.name}{f' at {where}' if where else ''} is not in the cache, and must be: {reason}")


def _kinship(differences: Mapping[str, object]) -> int:
    return sum(weight for part, weight in _KINSHIP.items() if part not in differences) - len(differences)


def _text(part: str) -> str:
    return f"'{part}'" if part else "none"
