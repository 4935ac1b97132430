"""`stepwell.Options`, and the checks of its fields: types, values, and names in mappings."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ..passes.infra.tuning import Tuning, read_tuning
from ..runtime.program import PRECISIONS, Shape
from ..runtime.progress.events import Progress
from ..support.errors import OptionError
from ..support.short_repr import short_repr

if TYPE_CHECKING:
    from mlir import ir

    from ..passes.infra.base import Pass
    from ..passes.infra.instrumentation import Instrumentation

FALLBACK = ("warn", "error", "quiet")
CACHE = (True, False, "require")
CHECKED = (True, False, "inputs")


@dataclass(frozen=True)
class CommandLineOption:
    """The command-line option that sets a field.

    Attributes:
        name: the option with its dashes.
        help: the text of `--help`.
        choices: the allowed values; without them the option is a flag.
        value: the field's value if the flag is given.
        metavar: placeholder of the value in the help; without a placeholder and choices, the option is a flag.
        parse: converts the text of a value.
    """

    name: str
    help: str
    choices: tuple[str, ...] = ()
    value: Any = True
    metavar: str = ""
    parse: Callable[[str], Any] = str


def _option(default: Any, flag: CommandLineOption | None = None, in_key: bool = False) -> Any:
    """Declares a field of `Options`; fields with `in_key` are part of the cache key."""
    return field(default=default, metadata={"flag": flag, "in_key": in_key})


@dataclass(frozen=True)
class At:
    """A pass of a caller, run after the compiler's own passes of a phase.

    Attributes:
        phase: name of the phase, such as "graph".
        step: a registered pass, or the text of a pipeline on modules, such as "func.func(cse)".
    """

    phase: str
    step: Pass | str

    def __str__(self) -> str:
        return f"{self.phase}:{self.step}"


@short_repr
@dataclass(frozen=True)
class Options:
    """Options of a compile.

    Attributes:
        shapes: input shapes by name, for which code is compiled at once instead of at the first call.
        cache: whether to store compiled code and use it again. "require" raises `CacheMissError` for code that is not
            in the cache, and so does `STEPWELL_CACHE=require`. `STEPWELL_CACHE_DIR` names the folder.
        codegen_threads: number of kernels compiled concurrently; for large models the number of processes, this one
            included, as far as there are processors for them.
        dims: sizes of symbolic dimensions, by name: a number, (low, high), (low, high, step), a list of upper bounds of
            buckets, or text that derives the size: another dimension, or a sum of dimensions. One compile then serves
            all these sizes (docs/dynamic_shapes.md).
        ranges: whether a second size of a model without `dims` is a reason to compile one program for a range of sizes,
            which serves further sizes without a compile (docs/dynamic_shapes.md). If not, each size is compiled
            separately, at its first call.
        adapt: whether to compile in the background, in processes of low priority: programs for ranges, and programs for
            single sizes that many calls have (docs/dynamic_shapes.md). Calls do not wait for them.
        max_programs: maximum number of programs kept that calls with varying sizes caused, besides the one for the
            widest range; the least recently used are dropped. None for no maximum.
        winograd: whether 3x3 convolutions may use Winograd's method if it is faster. It rounds more often than the
            direct method; errors are about twice as large (docs/numerics.md).
        checked: whether calls of an ONNX model check indices and integer divisors, and raise a `DataError` that names
            the node: only those that come directly from "inputs" (the default), all of them (True), or none (False), so
            that invalid ones give meaningless numbers (docs/numerics.md).
        precision: type of the operands in products of float32, whose sums stay float32: "f32", or, faster on GPUs,
            "tf32", "bf16" or "f16". Code for CPUs gives the numbers of a GPU too, but only CPUs with instructions for
            products of bfloat16 (AVX-512 BF16, AMX) are faster, in "bf16" (docs/numerics.md).
        low_rank: largest error, relative to its root mean square, of a float32 weight that is replaced by two smaller
            factors, where that saves work; 0 for exact weights (docs/numerics.md).
        batch_invariant: whether a row of a product with weights of few bits is rounded in the same way, however many
            rows are multiplied together. If not, many rows are multiplied as bf16 where that is faster: more exact than
            the bytes to which few rows are rounded (docs/numerics.md).
        fallback: handling of nodes that cannot be compiled, which run on the host, between compiled subgraphs of the
            model (docs/fallback.md): "warn" about them, reject the model with an "error" that names them, or be
            "quiet". With `dims`, a failure of the compiler in a range is raised for "error"; otherwise it is a warning,
            and each size is compiled separately.
        tuning: schedules of kernels that `stepwell-tune` found: its file, or a folder of such files, read when the
            options are made (docs/tuning.md).
        passes: passes of the caller, each `At` a phase; see docs/writing-a-pass.md.
        reached: called at each phase with its name, the module, and the parameters that the module names.
        instrumentation: called before and after every pass; see `passes/infra/instrumentation.py`.
        substitutes: MLIR files with kernels that replace others, by the names of the replaced ones (docs/kernels.md).
        guarded: whether to compile in a child process, so that a crash of native code becomes a `CompilerCrash` with a
            reproducer instead of ending this process (docs/failures.md); `STEPWELL_GUARDED=1` does the same. Cannot be
            combined with `reached` or `instrumentation`, which run in this process.
        progress: called with a `Progress` at the start and the end of each compile, at its phases, and as its kernels
            are compiled (docs/logging.md); in the thread that compiles. An exception that it raises ends the compile.
            True shows a progress bar in notebooks and terminals, None (the default) only in notebooks, False nowhere.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    cache: bool | str = _option(
        True, CommandLineOption("--no-cache", "compile without reading or writing the cache", value=False)
    )
    codegen_threads: int = 2
    ranges: bool = True
    adapt: bool = False
    max_programs: int | None = 64
    winograd: bool = _option(
        True,
        CommandLineOption("--no-winograd", "compute all convolutions directly: slower, more accurate", value=False),
        in_key=True,
    )
    checked: bool | Literal["inputs"] = _option(
        "inputs",
        CommandLineOption("--checked", "check computed indices and integer divisors too, not only those of inputs"),
        in_key=True,
    )
    # Part of the target's name, and thereby of the key.
    precision: str = _option(
        "f32",
        CommandLineOption(
            "--precision",
            "precision of float32 products; sums stay float32; fewer bits are faster on GPUs (default: %(default)s)",
            PRECISIONS,
        ),
    )
    low_rank: float = _option(
        0.0,
        CommandLineOption(
            "--low-rank",
            "replace weights by two smaller factors if their relative error is at most this (default: %(default)s)",
            metavar="E",
            parse=float,
        ),
        in_key=True,
    )
    batch_invariant: bool = _option(
        False,
        CommandLineOption("--batch-invariant", "round rows of products with few bits alike, however many there are"),
        in_key=True,
    )
    fallback: str = _option(
        "warn",
        CommandLineOption(
            "--fallback",
            "for nodes that cannot be compiled and run on the host: warn, fail with an error, or be quiet",
            FALLBACK,
        ),
    )
    tuning: Tuning | str | os.PathLike[str] | None = field(
        default=None,
        metadata={
            "flag": CommandLineOption("--tuning", "schedules that stepwell-tune found: file or folder", metavar="PATH"),
            "in_key": True,
        },
    )
    passes: Sequence[At] = _option((), in_key=True)
    reached: Callable[[str, ir.Module, Mapping[str, np.ndarray]], None] | None = None
    instrumentation: Sequence[Instrumentation] = ()
    substitutes: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict)
    guarded: bool = False
    progress: Callable[[Progress], object] | bool | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if isinstance(self.tuning, str | os.PathLike):
            object.__setattr__(self, "tuning", read_tuning(self.tuning))

    @property
    def key(self) -> str:
        """The part of a cache key that consists of the fields with `in_key`."""
        names = [item.name for item in fields(self) if item.metadata.get("in_key")]
        return ", ".join(f"{name}={_text_of(getattr(self, name))}" for name in names)

    @property
    def is_watched(self) -> bool:
        """True if a caller follows phases or passes, which needs the whole model as one module in this process."""
        return self.reached is not None or len(self.instrumentation) > 0


def _text_of(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


Made = TypeVar("Made")


def options_of(given: Made | Mapping[str, Any] | None, kind: Callable[..., Made]) -> Made:
    """Converts the `options` argument of a caller to an instance of the options class.

    Args:
        given: an instance, a mapping from the names of fields to values, or None for the defaults.
        kind: the options class, a dataclass.

    Raises:
        OptionError: it is none of these, a name is not a field, or a value is not allowed.
    """
    if given is None:
        return kind()
    if isinstance(given, Mapping):
        names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a callable to its callers
        unknown = [name for name in given if name not in names]
        if unknown:
            is_argument = kind is Options and unknown[0] in ("target", "threads")
            hint = "; it is an argument of stepwell.compile" if is_argument else _closest(unknown[0], names)
            raise OptionError(f"there is no option {unknown[0]!r}{hint}")
        return kind(**given)
    if not isinstance(given, kind):  # type: ignore[arg-type]  # as above
        raise OptionError(f"options must be stepwell.Options or a mapping of option names, but is {_short(given)}")
    return given


def check_options(options: Any) -> None:
    """Checks every field of `stepwell.Options`.

    Raises:
        OptionError: a field has a value of the wrong type or range, or two fields contradict each other.
    """
    _check_sizes("shapes", options.shapes, _is_shape, "sequences of sizes, such as (1, 3)")
    _check_sizes(
        "dims",
        options.dims,
        _is_sizes,
        "a size, (low, high), (low, high, step), a list of bounds or of such ranges, or a name",
    )
    _check_sizes("substitutes", options.substitutes, _is_path, "paths of MLIR files")
    _check_choice("cache", options.cache, CACHE)
    _check_choice("checked", options.checked, CHECKED)
    _check_choice("fallback", options.fallback, FALLBACK)
    _check_choice("precision", options.precision, PRECISIONS)
    if not isinstance(options.low_rank, int | float) or not 0.0 <= options.low_rank < 1.0:
        raise OptionError(f"low_rank is {_short(options.low_rank)}, and must be 0 or more, and less than 1")
    for name in ("ranges", "adapt", "winograd", "batch_invariant", "guarded"):
        value = getattr(options, name)
        if not isinstance(value, bool | np.bool_):
            raise OptionError(f"{name} is {_short(value)}, and must be True or False")
    if not _is_size(options.codegen_threads) or options.codegen_threads < 1:
        raise OptionError(f"codegen_threads is {_short(options.codegen_threads)}, and must be a number of 1 or more")
    if options.max_programs is not None and (not _is_size(options.max_programs) or options.max_programs < 1):
        raise OptionError(f"max_programs is {_short(options.max_programs)}, and must be a number of 1 or more, or None")
    if options.adapt and not options.ranges:
        raise OptionError("adapt cannot be combined with ranges=False: programs for ranges serve calls in the meantime")
    if options.reached is not None and not callable(options.reached):
        raise OptionError(f"reached is {_short(options.reached)}, and must be callable")
    if not (options.progress is None or isinstance(options.progress, bool) or callable(options.progress)):
        raise OptionError(f"progress is {_short(options.progress)}, and must be callable, True, False or None")
    if not (options.tuning is None or isinstance(options.tuning, Tuning) or _is_path(options.tuning)):
        raise OptionError(f"tuning is {_short(options.tuning)}, and must be a path, or None")
    if not isinstance(options.passes, list | tuple) or not all(isinstance(item, At) for item in options.passes):
        raise OptionError(f"passes is {_short(options.passes)}, and must be a list of stepwell.At(phase, pass)")
    if not isinstance(options.instrumentation, Sequence) or isinstance(options.instrumentation, str):
        raise OptionError(f"instrumentation is {_short(options.instrumentation)}, and must be a sequence")
    if options.guarded and (options.reached or options.instrumentation):
        raise OptionError("guarded cannot be combined with reached or instrumentation: it compiles in a child process")


def _check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    if any(type(value) is type(item) and value == item for item in allowed):
        return
    raise OptionError(f"{name} is {_short(value)}, and must be one of {', '.join(map(repr, allowed))}")


def _check_sizes(name: str, value: Any, is_allowed: Callable[[Any], bool], wanted: str) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{name} is {_short(value)}, and must be a mapping from names to {wanted}")
    for key, item in value.items():
        if not isinstance(key, str):
            raise OptionError(f"{name} has the key {_short(key)}, and its keys must be names")
        if not is_allowed(item):
            raise OptionError(f"{name}[{key!r}] is {_short(item)}, and must be {wanted}")


def _is_size(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_shape(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) and all(map(_is_size, value))


def _is_sizes(value: Any) -> bool:
    if isinstance(value, str) or _is_size(value):
        return True
    return isinstance(value, list | tuple) and all(_is_size(item) or _is_shape(item) for item in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _closest(name: Any, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), known, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; the options are {', '.join(known)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
