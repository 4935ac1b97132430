"""What the end-user tools share: how shapes and inputs are written, and how a tool ends when something goes wrong.

--shape x=1x3x48x320                a concrete shape for an input of the model
--input x=@x.npy                    the contents of a file
--input x=1x3x48x320xf32:random     made up: random (uniform in [0, 1), or 0 and 1), zeros, ones, range, or a number
--input rate=i64:16000              a scalar
"""

from __future__ import annotations

import argparse
import errno
import itertools
import json
import math
import os
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.dims_option import Dims, read_dims, read_sizes
from ..runtime.errors import InputError
from ..runtime.executable import Executable
from ..runtime.program import PRECISIONS, Shape, TensorInfo
from .flags import UsageError
from .supervisor import run_supervised

_DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
_MOST_DIGITS = 19
_SHOWN = 40
_WRONG_USAGE = 2
_INTERRUPTED = 130

Tell = Callable[[Mapping[str, Any]], None]


def run_tool(name: str, work: Callable[[], int], tell: Tell | None = None) -> int:
    """Runs a tool's work; what goes wrong becomes one line on stderr and the exit code 1, or 2 for wrong usage.

    `STEPWELL_DEBUG=1` shows where it went wrong.

    Args:
        name: the tool's name in messages.
        work: what it does.
        tell: given the record of a failure, but not of wrong usage; None where nobody asked for it.
    """

    def say(message: Warning | str, *_: Any) -> None:
        print(f"{name}: warning: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = say
            return work()
    except BrokenPipeError:
        # Whoever read the output has had enough; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except UsageError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return _WRONG_USAGE
    except Exception as error:  # a tool's last resort: whatever it is, the user is told in one line
        if os.environ.get("STEPWELL_DEBUG", "0") != "0":
            traceback.print_exc()
        failure = getattr(error, "failure", None)
        details = [] if failure is None else failure.lines()
        print("\n".join([f"{name}: error: {_one_line(error)}", *details]), file=sys.stderr)
        if tell is not None:
            tell(_record(error))
        return 1


def tells(options: argparse.Namespace) -> Tell | None:
    """What prints the record of a failure, where `--json` was given."""
    return _print_json if options.json else None


def _print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record), flush=True)


def _record(error: Exception) -> dict[str, Any]:
    """The keys of docs/failures.md, as far as they are known."""
    from ..passes.failure import CompileError, Failure, ModelOp  # a tool that succeeds does without

    if not isinstance(error, CompileError):
        return {"schema": 1, "reason": _one_line(error)}
    ops = (ModelOp(error.node, error.op_type),) if error.node else ()
    return (error.failure or Failure(str(error), error.phase, error.pass_name, ops, error.kernel)).record()


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, ImportError):  # where there is little memory, or few files may be open
        return f"a library cannot be loaded: {error}"
    text = str(error).strip()
    is_ours = type(error).__module__.startswith("stepwell.") or isinstance(error, OSError)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    return " / ".join(text.splitlines()) if is_ours and text else f"internal error: {type(error).__name__}: {text}"


def run_supervised_tool(name: str, work: Callable[[], int], target: str = "cpu", tell: Tell | None = None) -> int:
    """The same in a process of its own, so that a crash of native code ends in a message too; see `run_supervised`."""
    return run_supervised(name, lambda: run_tool(name, work, tell), target, tell)


class _Parser(argparse.ArgumentParser):
    """A parser that takes no `--option=--`, of which argparse makes an empty list."""

    # argparse declares overloads, each of which would have to be repeated for the types.
    def parse_known_args(self, args=None, namespace=None):  # type: ignore[override]
        given = sys.argv[1:] if args is None else list(args)
        for text in itertools.takewhile(lambda text: text != "--", given):
            if text.startswith("-") and text.endswith("=--"):
                self.error(f"argument {text[:-3]}: '--' is no value")
        return super().parse_known_args(given, namespace)


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """A tool's parser, with the options that all tools have."""
    made = _Parser(name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"{name} {_version()}")
    return made


def add_precision(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Adds the option about what products of float32 are computed in."""
    text = (
        f"of products of float32, whose sums stay float32: on GPUs fewer bits are faster{more} (default: %(default)s)"
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="f32", help=text)


def add_fallback(parser: argparse.ArgumentParser) -> None:
    """Adds the option about nodes that cannot be compiled."""
    text = (
        "of nodes that cannot be compiled and run on the host: warn of them, refuse them all as an error, or be quiet"
    )
    parser.add_argument("--fallback", choices=("warn", "error", "quiet"), default="warn", help=text)


def positive(text: str) -> int:
    """A number of threads, rounds or calls."""
    if not _is_whole(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a positive number")
    return int(text)


def natural(text: str) -> int:
    """The seed of random numbers, or a number of things of which there may be none."""
    if not _is_whole(text):
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a whole number of 0 or more")
    return int(text)


def amount(text: str) -> float:
    """A tolerance, or a number of seconds: neither negative nor without end, and a number at all."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a number of 0 or more")
    return number


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_shape_sets(texts: Iterable[str]) -> list[dict[str, Shape]]:
    """The sets of input shapes in `--shape` options, a new set wherever a name comes again.

    Raises:
        UsageError: an option is not of the form `name=1x2x3`.
    """
    sets: list[dict[str, Shape]] = [{}]
    for item in (part for text in texts for part in text.split(",")):
        name, equals, dims = item.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--shape {item}: write it as name=1x3x48x320")
        if name in sets[-1]:
            sets.append({})
        sets[-1][name] = _parse_dims(dims.split("x") if dims else [], f"--shape {item}")
    return sets


def parse_dims(texts: Iterable[str]) -> Dims:
    """What `--dims` options say of sizes that vary: `n=3`, `n=1:64`, `n=32:960:32`, `n=16/64/256`, `m=n`.

    Raises:
        UsageError: an option is none of these.
    """
    try:
        return read_dims(texts)
    except InputError as error:
        raise UsageError(f"--dims {error}") from error


def _parse_dims(parts: Sequence[str], where: str) -> Shape:
    try:
        return read_sizes(parts, where)
    except InputError as error:
        raise UsageError(str(error)) from error


def parse_input(text: str, random: np.random.Generator) -> tuple[str, np.ndarray]:
    """An input's name and contents from an `--input` option.

    Raises:
        UsageError: the option is not of a known form, or its file cannot be read.
    """
    where = f"--input {text}"
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UsageError(f"{where}: write it as name=@file.npy or name=1x3x48x320xf32:random")
    if value.startswith("@"):
        return name, _load_array(Path(value[1:]), where)
    form, _, contents = value.partition(":")
    *dims, kind = form.split("x")
    if kind not in _DTYPES:
        raise UsageError(f"{where}: '{kind}' is not an element type; these are: {', '.join(_DTYPES)}")
    return name, _make_up(_parse_dims(dims, where), np.dtype(_DTYPES[kind]), contents or "random", random, where)


def _load_array(path: Path, where: str) -> np.ndarray:
    loaded = load_arrays(path, where, ".npy")
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"{where}: {path} holds several arrays; give a .npy file")
    return loaded


def load_arrays(path: Path, option: str, kinds: str) -> np.ndarray | dict[str, np.ndarray]:
    """What a .npy file holds, or a .npz file by name; `option` names it, and `kinds` says which of these it may be.

    Raises:
        UsageError: it cannot be read; it is a pipe, which cannot be sought in.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, SyntaxError, NotImplementedError) as error:
        raise UsageError(f"{option}: not a {kinds} file that can be read: {error}") from error


def _make_up(shape: Shape, dtype: np.dtype, contents: str, random: np.random.Generator, where: str) -> np.ndarray:
    try:
        if contents == "random":
            return random_array(shape, dtype, random)
        if contents == "range":
            return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        whole = np.broadcast_to(np.float32(0), shape)  # no array has another shape
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    try:
        return np.full(whole.shape, {"zeros": 0, "ones": 1}.get(contents, contents)).astype(dtype)
    except (ValueError, OverflowError):
        raise UsageError(f"{where}: '{contents}' is not one of random, zeros, ones, range, nor a number") from None


def random_array(shape: Shape, dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    """Uniform in [0, 1) for floating-point types; 0 and 1 for integers, which index tables of two entries at least."""
    if dtype.kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape).astype(dtype)


def made_up_inputs(
    inputs: Sequence[TensorInfo], shapes: Mapping[str, Shape], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Random contents for inputs of fixed or given shape."""
    made = {}
    for info in inputs:
        shape = shapes.get(info.name, tuple(int(dim) for dim in info.shape if isinstance(dim, int)))
        made[info.name] = random_array(shape, info.dtype, random)
    return made


def check_shapes(shapes: Collection[str], inputs: Sequence[TensorInfo], option: str) -> None:
    """Sees that every input has a shape, its own or a given one.

    Raises:
        UsageError: one has not.
    """
    for info in inputs:
        if info.name not in shapes and not info.is_static:
            sample = "x".join(str(dim) if isinstance(dim, int) else "1" for dim in info.shape)
            more = f"x{element_name(info.dtype)}" if option == "--input" else ""
            raise UsageError(
                f"input '{info.name}' has no fixed shape ({info}): add {option} {info.name}={sample}{more}"
            )


def element_name(dtype: np.dtype) -> str:
    """How `--input` spells an element type."""
    return next((name for name, known in _DTYPES.items() if known == dtype.name), dtype.name)


def check_names(names: Iterable[str], inputs: Sequence[TensorInfo], option: str) -> None:
    """Sees that names given on the command line are inputs of the model.

    Raises:
        UsageError: one is not.
    """
    known = [info.name for info in inputs]
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name}: the model has no such input; it has {', '.join(map(str, inputs))}")


def open_model(
    path: str,
    target: str,
    threads: int | None,
    shapes: Mapping[str, Shape] | None = None,
    fallback: str = "warn",
    precision: str = "f32",
) -> Executable:
    """Loads an artefact, or compiles anything else."""
    from .. import Options, compile, load  # the compiler takes a while to import, and --help should not wait for it

    if is_artefact(path):
        return load(path, threads=threads)
    options = Options(shapes=shapes or {}, fallback=fallback, precision=precision)
    return compile(path, target=target, threads=threads, options=options)


def is_artefact(path: str) -> bool:
    """Whether a file is an artefact, by its name or else its contents."""
    return path.endswith(".stw") or (os.path.isfile(path) and zipfile.is_zipfile(path))  # a device has no end


def _version() -> str:
    from importlib.metadata import version

    return version("stepwell")
