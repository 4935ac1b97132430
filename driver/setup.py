"""The target, options and cache that all compiles of one model share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime import environment
from ..runtime.cache import Cache, default_cache
from ..runtime.short_repr import short_repr
from .options import Options

if TYPE_CHECKING:
    from .substitution import Substitute


@short_repr
@dataclass(frozen=True)
class Setup:
    """The target, the options and the cache of all compiles of one model.

    Attributes:
        target: the target's name, with its precision.
        options: how to compile.
        cache: where code is kept; None where none is.
        is_loaded: whether the model comes from an artefact.
        left_out: the names of passes to leave out on the way to the phase `graph`, besides those that options turn off.
    """

    target: str = "cpu"
    options: Options = field(default_factory=Options)
    cache: Cache | None = None
    is_loaded: bool = False
    left_out: tuple[str, ...] = ()

    @staticmethod
    def of(target: str, options: Options) -> Setup:
        """The setup for a target as users name it, whose precision is a field of its options."""
        return Setup(target if options.precision == "f32" else f"{target}+{options.precision}", options)

    @property
    def must_hit(self) -> bool:
        """Whether code that is not in the cache is an error."""
        return self.options.cache == "require" or environment.cache() == "require"

    @property
    def is_guarded(self) -> bool:
        """Whether each compile is in a process of its own, so that a crash of native code is an error."""
        return self.options.guarded or (environment.is_guarded() and not self.options.is_watched)

    @property
    def is_whole(self) -> bool:
        """Whether all of the model stays in one module, to be watched or changed at a phase."""
        return self.options.is_watched or len(self.options.substitutes) > 0

    @property
    def without(self) -> tuple[str, ...]:
        """The names of passes to leave out on the way to the phase `graph`."""
        return self.left_out if self.options.winograd else (*self.left_out, "stepwell-choose-winograd")

    @property
    def substitutes(self) -> list[Substitute]:
        """Kernels to put in the place of others."""
        from .substitution import Substitute

        return [Substitute(kernel, Path(path)) for kernel, path in self.options.substitutes.items()]

    def changed(self, **options: Any) -> Setup:
        """The same with other options."""
        return replace(self, options=replace(self.options, **options))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all but what watches compiles in this process; the cache is that of the process that unpickles."""
        progress = self.options.progress if isinstance(self.options.progress, bool) else None
        kept = {item.name: getattr(self.options, item.name) for item in fields(Options)}
        kept |= {"reached": None, "instrumentation": (), "progress": progress}
        return _unpickled, (self.target, kept, self.cache is not None, self.is_loaded, self.left_out)


def _unpickled(
    target: str, options: dict[str, Any], is_cached: bool, is_loaded: bool, left_out: tuple[str, ...]
) -> Setup:
    return Setup(target, Options(**options), default_cache() if is_cached else None, is_loaded, left_out)
