"""Ranges of sizes that a session is compiled for at once, rather than for each size when it first occurs in a run."""

from __future__ import annotations

import atexit
import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from typing import Any

import onnx

from ...runtime.executable import CallOutputs, Executable
from ...runtime.program import Program, TensorInfo
from ...runtime.specialization.size_advice import Suggested, as_text
from ...sizes.dims_option import Dims, read_dims, read_sizes, resolve_dims
from ...sizes.ranges import Range, widened
from ...support.errors import InputError, SlowWarning
from ...support.warning import warn
from .options import SessionOptions

ENTRY = "stepwell.dims"
"""The session setting for ranges, such as "n=1:64,m=1:128"."""

VARIABLE = "STEPWELL_DIMS"
"""The environment variable with ranges for all sessions without such a setting."""

_SHOWN = 8
"""Number of models that a warning lists."""


class RequestedSizes:
    """The names that ranges were given for in this process, and the models that were opened.

    Attributes:
        names: the names as written, each with whether a model has it.
        models: the dimensions of each model, by its name.
    """

    def __init__(self) -> None:
        self.names: dict[str, bool] = {}
        self.models: dict[str, list[str]] = {}

    def unmatched(self, *, with_files: bool = True) -> str:
        """Returns an error about names that no model has; "" if there are none, or no model was opened.

        Args:
            with_files: whether to include names with a model's file, which another process may have opened.
        """
        unmatched = [name for name, is_known in self.names.items() if not is_known and (with_files or ":" not in name)]
        if not unmatched or not self.models:
            return ""
        known = [f"{model} has {_listed(dims)}" for model, dims in list(self.models.items())[:_SHOWN]]
        quoted = " and ".join(f"'{name}'" for name in unmatched)
        return f"sizes are given for {quoted}, but no opened model has such dimensions: {'; '.join(known)}"


requested = RequestedSizes()


class Ranged:
    """A model compiled for ranges, and for each size outside of them when it first occurs in a run."""

    def __init__(self, ranged: Executable, plain: Executable, prefix: str) -> None:
        self.name, self.inputs, self.outputs = ranged.name, ranged.inputs, ranged.outputs
        self.ranges, self.prepare = ranged.ranges, plain.prepare
        self._ranged, self._plain, self._prefix = ranged, plain, prefix
        self._is_warned = False

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code compiled so far."""
        return self._ranged.programs + self._plain.programs

    def __call__(self, *args: Any) -> CallOutputs:
        """Runs the model; see `Executable`.

        Warns:
            SlowWarning: a size is out of its range; only once.
        """
        outside = [
            found for info, value in zip(self.inputs, args, strict=True) for found in _outside(info, value, self.ranges)
        ]
        if not outside:
            return self._ranged(*args)
        outputs = self._plain(*args)  # rejects invalid inputs
        if not self._is_warned:
            self._is_warned = True
            self._warn(*outside[0])
        return outputs

    def _warn(self, name: str, size: int) -> None:
        values = self.ranges[name]
        low, high = widened(values, size)
        warn(
            f"{self.name}: dimension '{name}' is {size}, out of its range, {values}. Sizes out of range are "
            f"compiled during a run. {_advice(self._prefix, {name: (low, high)})}",
            SlowWarning,
        )


def size_options(options: SessionOptions) -> dict[str, Any]:
    """Returns the fields of `stepwell.Options` about sizes that vary, from the settings of a session.

    Raises:
        InputError: a setting has another value than "0" and "1", or is not a number.
    """
    found: dict[str, Any] = {}
    for name in ("ranges", "adapt", "max_programs"):
        key = f"stepwell.{name}"
        if not options.has_session_config_entry(key):
            continue
        text = options.get_session_config_entry(key)
        if name == "max_programs":
            (found[name],) = read_sizes([text], key)
        elif text in ("0", "1"):
            found[name] = text == "1"
        else:
            raise InputError(f"{key} is '{text}', and must be '0' or '1'")
    return found


def for_ranges(
    plain: Executable, model: Path | bytes | onnx.ModelProto, options: SessionOptions, path: str | None = None
) -> Executable | Ranged:
    """Returns a model compiled for the declared ranges of its dimensions, if there are any.

    A name without a model applies to all models that have it.

    Args:
        plain: the model, compiled for each size separately.
        model: the source of the model.
        options: options of the session.
        path: the model's file, if it has one.

    Raises:
        InputError: a range is invalid, or a name is given for this model but it has no such dimension.
    """
    varying = list(dict.fromkeys(dim for info in plain.inputs for dim in info.shape if isinstance(dim, str)))
    prefix = f"{PurePath(path).name}:" if path else ""
    if varying:
        plain.watch.advice = lambda dims: _advice(prefix, dims)
    dims = _named(options, path, varying, PurePath(path).name if path else plain.name)
    if not dims:
        return plain
    missing = sorted(set(varying) - dims.keys() - resolve_dims(dims, plain.inputs).derived.keys())
    if missing:
        reason = f"dimension '{missing[0]}' varies too, but has no range; declare one, as in {prefix}{missing[0]}=1:64"
        message = f"{plain.name}: each size is compiled separately, at its first run: {reason}"
        warn(message, SlowWarning)
        return plain
    from ... import Options, compile  # programs that only import the drop-in need not load a compiler

    ranged = compile(model, threads=plain.threads, options=Options(dims=dims))
    plain.watch.advice = None  # warned at the first size out of range, or when the ranges were rejected
    return plain if ranged.unranged else Ranged(ranged, plain, prefix)


def _named(options: SessionOptions, path: str | None, varying: Collection[str], model: str) -> Dims:
    """Returns the sizes declared for a model's dimensions; those for this model take precedence over general ones."""
    has_entry = options.has_session_config_entry(ENTRY)
    text = options.get_session_config_entry(ENTRY) if has_entry else os.environ.get(VARIABLE, "")
    if not text:
        return {}
    where = ENTRY if has_entry else VARIABLE
    try:
        given = read_dims([text])
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if not requested.names:
        atexit.register(_warn_of_unmatched)
    requested.models[model] = list(varying)
    general, own = {}, {}
    for key, sizes in given.items():
        name = key if key in varying else _for_model(key, path)
        requested.names[key] = requested.names.get(key, False) or name is not None
        if name is None:
            continue
        if name not in varying:
            raise InputError(
                f"{where}: {key}: {model} has no dimension '{name}' that varies; it has {_listed(varying)}"
            )
        (general if name == key else own)[name] = sizes
    return {**general, **own}


def _for_model(key: str, path: str | None) -> str | None:
    """Returns the name after a model's file, or the end of its path, and a colon; None if it is for another model."""
    if path is None:
        return None
    parts = PurePath(os.path.abspath(path)).parts
    for place, sign in enumerate(key):
        if sign != ":":
            continue
        wanted = PurePath(os.path.normpath(key[:place])).parts
        if wanted and parts[-len(wanted) :] == wanted:
            return key[place + 1 :]
    return None


def _warn_of_unmatched() -> None:
    if text := requested.unmatched():
        warn(text, SlowWarning)


def _advice(prefix: str, dims: Suggested) -> str:
    plain = as_text(dims)
    text = shlex.quote(as_text({prefix + name: sizes for name, sizes in dims.items()}))
    return (
        f"To compile once for a range, set {VARIABLE}={text}, run python -m stepwell.compat.onnxruntime --dims {text}, "
        f"or call add_session_config_entry({ENTRY!r}, {plain!r}) of the session's options"
    )


def _outside(info: TensorInfo, value: Any, ranges: Mapping[str, Range]) -> list[tuple[str, int]]:
    sizes = zip(info.shape, getattr(value, "shape", ()), strict=False)
    return [(dim, size) for dim, size in sizes if isinstance(dim, str) and dim in ranges and size not in ranges[dim]]


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
