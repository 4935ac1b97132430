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
_LOCAL = frozenset({"checked", "peaks", "machine", "files"})


@CacheArtifactFactory.register
class StepwellCacheArtifact(CacheArtifact):
    """An entry of the cache; its key is its kind and the key in the cache.

    The content of a recorded entry is read when torch saves it: it may be as large as a model.
    """

    _source: bytes | Cache

    @staticmethod
    def type() -> str:
        """See `CacheArtifact`."""
        return _TYPE

    @staticmethod
    def encode(content: Any) -> Any:
        """Returns the content, or the cache that has it, as it is."""
        return content

    @property
    def content(self) -> bytes:
        """The entry's data."""
        source = self._source
        if not isinstance(source, Cache):
            return source
        kind, _, key = self.key.partition("/")
        return bytes(source.get(kind, key) or b"")

    @content.setter
    def content(self, value: bytes | Cache) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # a field
        object.__setattr__(self, "_source", value)

    def populate_cache(self) -> None:
        """Stores the entry in the cache of this process; one that was dropped before it was saved has no content."""
        kind, _, key = self.key.partition("/")
        target = default_cache()
        content = self.content
        if content and target is not None and not target.has(kind, key):
            target.put(kind, key, content)

    # An entry is identified by its name.
    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepwellCacheArtifact) and other.key == self.key


def record(used: Cache, kind: str, key: str) -> None:
    """Records an entry that is read or written, once."""
    name = f"{kind}/{key}"
    if kind not in _LOCAL and StepwellCacheArtifact(name, b"") not in CacheArtifactManager._seen_artifacts:
        CacheArtifactManager.record_artifact(_TYPE, name, used)


cache.OBSERVERS.append(record)
