"""Entries of the cache as artifacts of `torch.compiler.save_cache_artifacts`.

Importing this module makes them known to `torch.compiler.load_cache_artifacts`; the backend imports it.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from ...runtime.cache import cache
from ...runtime.cache.cache import Cache, default_cache

_TYPE = "stepwell"
# Facts about this machine and its files.
_LOCAL = frozenset({"checked", "peaks", "figures", "files"})


@CacheArtifactFactory.register
class StepwellCacheArtifact(CacheArtifact):
    """An entry of the cache; its key is its kind and the key in the cache, its content is mapped."""

    @staticmethod
    def type() -> str:
        """See `CacheArtifact`."""
        return _TYPE

    @staticmethod
    def encode(content: Any) -> Any:
        """Returns the content as it is: torch reads it only to save it."""
        return content

    def populate_cache(self) -> None:
        """Stores the entry in the cache of this process."""
        kind, _, key = self.key.partition("/")
        target = default_cache()
        if target is not None and not target.has(kind, key):
            target.put(kind, key, self.content)

    # An entry is identified by its name; the content may be as large as a model.
    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepwellCacheArtifact) and other.key == self.key


_being_read: set[str] = set()


def record(used: Cache, kind: str, key: str) -> None:
    """Records an entry that is read or written, once."""
    name = f"{kind}/{key}"
    is_known = StepwellCacheArtifact(name, b"") in CacheArtifactManager._seen_artifacts
    if kind in _LOCAL or is_known or name in _being_read:
        return
    _being_read.add(name)  # to read it is to use it
    try:
        content = used.get(kind, key)
    finally:
        _being_read.discard(name)
    if content is not None:  # a folder may be read-only
        CacheArtifactManager.record_artifact(_TYPE, name, content)


cache.OBSERVERS.append(record)
