"""The cached programs of one model: their keys, and compiles of those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...runtime.artefact import store
from ...runtime.cache.cache import Cache
from ...runtime.cache.keys import key_of
from ...runtime.hybrid.plan import ExecutionPlan
from ...runtime.program import Program, Shape
from ...runtime.progress.progress import CompileReporter
from ...runtime.specialization.interfaces import ByContents, Contents
from ...sizes.bounds import Bounds
from ...sizes.buckets import Buckets
from ...sizes.expressions import Expression
from ...support.packages import require_compiler
from ..setup import Setup
from ..sources.source import ModelSource
from ..subgraphs.subgraph_source import SubgraphSource
from . import cache_key, plugins
from .cache_key import CacheKey
from .fingerprint import fingerprint
from .locks import program_lock

Made = TypeVar("Made", bound=Program | ByContents | ExecutionPlan)
"""A cached result of a compile."""


_LARGE_BYTES = 16 << 20
"""Minimum size of weights in bytes for mapping the cached program after a compile."""


@dataclass(frozen=True)
class ProgramCache:
    """The part of the cache that belongs to a model, or to a subgraph of one; may be disabled.

    Attributes:
        source: the model.
        names: the names of its inputs.
        setup: target, options and cache.
    """

    source: ModelSource | SubgraphSource
    names: tuple[str, ...]
    setup: Setup

    def key(self, shapes: tuple[Shape, ...], contents: Contents) -> CacheKey:
        """Returns the cache key for these shapes (and contents)."""
        target = self.setup.target
        held = [item for position, array in contents.items() for item in (str(position), array.tobytes())]
        texts = [f"{name}={'x'.join(map(str, shape))}" for name, shape in zip(self.names, shapes, strict=False)]
        return CacheKey(
            self.source.name,
            fingerprint(),
            self.source.fingerprint,
            target,
            machine=_this_machine() if target.partition("+")[0] == "cpu" else "",
            options=self.setup.options.key,
            plugins=plugins.fingerprint(),
            element_types=" ".join(self.source.kinds) if isinstance(self.source, SubgraphSource) else "",
            shapes=", ".join(texts),
            contents=key_of(*held) if held else "",
        )

    def keys_of_buckets(self, buckets: Buckets, derived: Mapping[str, Expression]) -> list[CacheKey]:
        """Returns the cache key of the program of each bucket of sizes."""
        key = self.key((), {})
        return [
            replace(key, sizes=", ".join(f"{name}={values}" for name, values in {**item, **derived}.items()))
            for item in buckets
        ]

    def known(self, key: CacheKey) -> Program | None:
        """Returns the program with a key; None if it is not in the cache."""
        found = _known(self.setup.cache, [key])
        return found[0] if found and isinstance(found[0], Program) else None

    def inferred(self) -> list[tuple[CacheKey, Bounds]]:
        """Returns the inferred ranges that were compiled for, with the keys of their programs."""
        base, cache = self.key((), {}), self.setup.cache
        known = {} if cache is None else store.get_ranges(cache, base.digest)
        return [(replace(base, sizes=sizes), bounds) for sizes, bounds in known.items()]

    def remember_inferred(self, key: CacheKey, bounds: Bounds) -> None:
        """Stores that there is a program for an inferred range."""
        base, cache = self.key((), {}), self.setup.cache
        if cache is None:
            return
        known = store.get_ranges(cache, base.digest)
        if key.sizes not in known:
            store.put_ranges(cache, base.digest, {**known, key.sizes: bounds})

    def refusal(self, key: CacheKey) -> str:
        """Returns why there is no program for a range; empty if that is not known."""
        return "" if self.setup.cache is None else store.get_refusal(self.setup.cache, key.digest)

    def refuse(self, key: CacheKey, reason: str) -> None:
        """Stores that there is no program for a range."""
        if self.setup.cache is not None:
            store.put_refusal(self.setup.cache, key.digest, reason)

    def get_or_make(
        self, keys: Sequence[CacheKey], make: Callable[[], Sequence[Made]], reporter: CompileReporter
    ) -> tuple[Sequence[Program | ByContents | ExecutionPlan], bool]:
        """Returns the results for some keys, from the cache or by one compile of all, and whether they were compiled.

        Processes that need the same results compile them one after the other, so that all but the first find them.

        Raises:
            CacheMissError: all must be in the cache, and one is not.
        """
        cache = self.setup.cache
        known = _known(cache, keys)
        if len(known) == len(keys):
            return known, False
        if cache and self.setup.must_hit:
            raise cache_key.miss(cache, keys[len(known)])
        require_compiler()
        digests = [key.digest for key in keys]
        with program_lock(cache, digests[0] if len(digests) == 1 else key_of(*digests), reporter.wait):
            # Another process may have compiled them since the last look-up.
            known = _known(cache, keys)
            if len(known) == len(keys):
                return known, False
            reporter.miss()
            made = make()
            if cache:
                for key, result in zip(keys, made, strict=True):
                    _store(cache, key, result)
                if sum(map(_weight_bytes, made)) >= _LARGE_BYTES:
                    made = _mapped(cache, keys, made)
        return made, True


def _known(cache: Cache | None, keys: Sequence[CacheKey]) -> list[Program | ByContents | ExecutionPlan]:
    """Returns the results of the first keys, up to the first that is not in the cache."""
    found: list[Program | ByContents | ExecutionPlan] = []
    if cache is None:
        return found
    for key in keys:
        result = store.get_program(cache, key.digest)
        if result is None:
            break
        found.append(result)
    return found


def _mapped(
    cache: Cache, keys: Sequence[CacheKey], made: Sequence[Made]
) -> Sequence[Program | ByContents | ExecutionPlan]:
    """Returns results as they are in the cache: their weights are mapped, so that those in memory can be freed."""
    found = _known(cache, keys)
    return found if len(found) == len(keys) else made  # another process may have dropped them


def _weight_bytes(made: Program | ByContents | ExecutionPlan) -> int:
    return sum(array.nbytes for array in made.parameters.values()) if isinstance(made, Program) else 0


def _store(cache: Cache, key: CacheKey, made: Program | ByContents | ExecutionPlan) -> None:
    cache_key.remember(cache, key)
    if isinstance(made, Program):
        store.put_program(cache, key.digest, made)
    elif isinstance(made, ByContents):
        store.put_by_contents(cache, key.digest, made)
    else:
        store.put_plan(cache, key.digest, made)


def _this_machine() -> str:
    """Returns the facts that code for this machine depends on: instruction sets, and numbers that schedules use."""
    from ...runtime import processor
    from ...runtime.devices import figures

    return "+".join(sorted(processor.features() or ())) + figures.text()
