"""The target, options and cache that all compiles of one model share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.cache.cache import Cache, default_cache
from ..support import environment
from ..support.short_repr import short_repr
from ..targets.registry import is_cpu
from .options import Options

if TYPE_CHECKING:
    from ..passes.infra.state import CompileState
    from .substitution import Substitute


@short_repr
@dataclass(frozen=True)
class Setup:
    """The target, the options and the cache of all compiles of one model.

    Attributes:
        target: the target's name, with its precision.
        options: how to compile.
        cache: the cache of compiled code; None for no cache.
        is_loaded: whether the model comes from an artefact.
        left_out: names of passes to leave out before the phase `graph`, besides those that options disable.
    """

    target: str = "cpu"
    options: Options = field(default_factory=Options)
    cache: Cache | None = None
    is_loaded: bool = False
    left_out: tuple[str, ...] = ()

    @staticmethod
    def of(target: str, options: Options) -> Setup:
        """Creates the setup for a target as users name it; the precision is a field of its options."""
        return Setup(target if options.precision == "f32" else f"{target}+{options.precision}", options)

    @property
    def must_hit(self) -> bool:
        """True if code that is not in the cache is an error."""
        return self.options.cache == "require" or environment.cache() == "require"

    @property
    def is_guarded(self) -> bool:
        """True if each compile runs in a child process, so that a crash of native code becomes an error."""
        return self.options.guarded or (environment.is_guarded() and not self.options.is_watched)

    @property
    def divides_ranges(self) -> bool:
        """True if wide ranges of sizes become several programs, because kernels compute all of a range."""
        return not is_cpu(self.target)

    @property
    def is_whole(self) -> bool:
        """True if all of the model stays in one module, to be followed or changed at a phase."""
        late = any(item.phase != "graph" for item in self.options.passes)
        return self.options.is_watched or len(self.options.substitutes) > 0 or late

    @property
    def without(self) -> tuple[str, ...]:
        """The names of passes to leave out before the phase `graph`."""
        return self.left_out if self.options.winograd else (*self.left_out, "stepwell-choose-winograd")

    @property
    def substitutes(self) -> list[Substitute]:
        """The kernels that replace others."""
        from .substitution import Substitute

        return [Substitute(kernel, Path(path)) for kernel, path in self.options.substitutes.items()]

    def state(self, **fields: Any) -> CompileState:
        """Returns the state of a new compile; `fields` are those that do not follow from the setup."""
        from .state import state_for  # loads MLIR

        options = self.options
        chosen = {"without": self.without, "added": options.passes, "instrumentation": options.instrumentation}
        chosen |= {"tuning": options.tuning, "low_rank": options.low_rank}
        chosen |= {"batch_invariant": options.batch_invariant}
        return state_for(self.target, **chosen, **fields)

    def changed(self, **options: Any) -> Setup:
        """Returns this setup with other options."""
        return replace(self, options=replace(self.options, **options))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all but callbacks, which belong to this process; the unpickling process uses its own cache."""
        progress = self.options.progress if isinstance(self.options.progress, bool) else None
        kept = {item.name: getattr(self.options, item.name) for item in fields(Options)}
        kept |= {"reached": None, "instrumentation": (), "progress": progress}
        return _unpickled, (self.target, kept, self.cache is not None, self.is_loaded, self.left_out)


def _unpickled(
    target: str, options: dict[str, Any], is_cached: bool, is_loaded: bool, left_out: tuple[str, ...]
) -> Setup:
    return Setup(target, Options(**options), default_cache() if is_cached else None, is_loaded, left_out)
