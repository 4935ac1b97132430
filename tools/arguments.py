"""Helpers of the end-user tools: the syntax of shapes and inputs, and the reporting of errors.

--shape x=1x3x48x320                a concrete shape for an input of the model
--input x=@x.npy                    the contents of a file
--input x=1x3x48x320xf32:random     generated: random (uniform in [0, 1), or 0 and 1), zeros, ones, range, or a number
--input rate=i64:16000              a scalar
"""

from __future__ import annotations

import argparse
import errno
import math
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..runtime.program import Shape, TensorInfo
from ..sizes.dims_option import Dims, read_dims, read_sizes
from ..support.errors import InputError
from ..support.formats import known_suffixes
from ..support.whole_numbers import is_whole
from .flags import UsageError
from .running import print_json, usage_record

MODEL = ".onnx, .mlir, .pt2 or .gguf file, Hugging Face folder, or file of a format that another package imports"
"""The models that tools take, for help texts."""

_DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "string": "object",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
_WORDS = ("alpha", "beta", "gamma", "delta")
_SHAPE_END = re.compile(r"=[\dx]*$")
# A name may hold `=` too.
_INPUT = re.compile(rf"(.+?)=(@.+|(?:\d+x)*(?:{'|'.join(_DTYPES)})(?::.*)?)", re.DOTALL)
_SHOWN = 40
"""Number of characters of a wrong value that a message shows."""


def add_plugins(parser: argparse._ActionsContainer) -> None:
    """Adds `--load-pass-plugin`, named as in `mlir-opt`; `running.run_with` loads what it names."""
    text = "load passes, ops and formats of models from these modules or files, separated by commas"
    parser.add_argument("--load-pass-plugin", default="", metavar="MODULE|FILE.py,...", help=text)


class Parser(argparse.ArgumentParser):
    """A parser that rejects `--option=--` and takes optional values only as `--option=value`.

    argparse would parse the former as an empty list. In `--option model` it would take `model` as the value of
    `--option`, and the model would be missing.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})
        self.speaks_json = False
        """True if usage errors are printed as JSON too; set by `--json`."""

    def error(self, message: str) -> NoReturn:
        if self.speaks_json:
            print_json(usage_record(message))
        super().error(message)

    # argparse declares overloads, each of which would have to be repeated for the types.
    def parse_known_args(self, args=None, namespace=None):  # type: ignore[override]
        given = sys.argv[1:] if args is None else list(args)
        end = given.index("--") if "--" in given else len(given)
        self.speaks_json = self.speaks_json or "--json" in given[:end]
        for text in given[:end]:
            if text.startswith("-") and text.endswith("=--"):
                self.error(f"argument {text[:-3]}: '--' is not a value")
        implied = {
            name: action.const for action in self._actions if action.nargs == "?" for name in action.option_strings
        }
        options = [f"{text}={implied[text]}" if text in implied else text for text in given[:end]]
        return super().parse_known_args([*options, *given[end:]], namespace)


def parser(name: str, description: str) -> Parser:
    """Creates a tool's parser with the options common to all tools."""
    made = Parser(name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"{name} {_version()}")
    return made


def positive(text: str) -> int:
    """Parses a number of threads, rounds or calls."""
    if not is_whole(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a positive number")
    return int(text)


def natural(text: str) -> int:
    """Parses a seed of random numbers, or a count that may be 0."""
    if not is_whole(text):
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a whole number of 0 or more")
    return int(text)


def amount(text: str) -> float:
    """Parses a tolerance or a number of seconds: finite and not negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is not a number of 0 or more")
    return number


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_shape_sets(texts: Iterable[str]) -> list[dict[str, Shape]]:
    """Parses `--shape` options into sets of input shapes; a repeated name starts a new set.

    Raises:
        UsageError: an option is not of the form `name=1x2x3`.
    """
    sets: list[dict[str, Shape]] = [{}]
    for item in (part for text in texts for part in _parts(text)):
        name, equals, dims = item.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--shape {item}: write it as name=1x3x48x320")
        if name in sets[-1]:
            sets.append({})
        sets[-1][name] = _parse_dims(dims.split("x") if dims else [], f"--shape {item}")
    return sets


def _parts(text: str) -> list[str]:
    """Splits at commas, except those within names."""
    parts: list[str] = []
    for part in text.split(","):
        is_new = not parts or _SHAPE_END.search(parts[-1]) is not None
        parts = [*parts, part] if is_new else [*parts[:-1], f"{parts[-1]},{part}"]
    return parts


def parse_dims(texts: Iterable[str]) -> Dims:
    """Parses `--dims` options: `n=3`, `n=1:64`, `n=32:960:32`, `n=16/64/256`, `m=n`.

    Raises:
        UsageError: an option has none of these forms.
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
    """Parses an `--input` option into an input's name and contents.

    Raises:
        UsageError: the option has no known form, or its file cannot be read.
    """
    where = f"--input {text}"
    found = _INPUT.fullmatch(text)
    name, equals, value = text.partition("=") if found is None else (found[1], "=", found[2])
    if not equals or not name or not value:
        raise UsageError(f"{where}: write it as name=@file.npy or name=1x3x48x320xf32:random")
    if value.startswith("@"):
        return name, _load_array(Path(value[1:]), where)
    form, _, contents = value.partition(":")
    *dims, kind = form.split("x")
    if kind not in _DTYPES:
        raise UsageError(f"{where}: '{kind}' is not an element type; these are: {', '.join(_DTYPES)}")
    return name, _make_up(_parse_dims(dims, where), np.dtype(_DTYPES[kind]), contents or "random", random, where)


def files_of(inputs: Iterable[str]) -> list[str]:
    """The files that `--input` options name."""
    found = filter(None, map(_INPUT.fullmatch, inputs))
    return [match[2][1:] for match in found if match[2].startswith("@")]


def _load_array(path: Path, where: str) -> np.ndarray:
    loaded = load_arrays(path, where, ".npy")
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"{where}: {path} holds several arrays; give a .npy file")
    return loaded


def load_arrays(path: Path, option: str, kinds: str) -> np.ndarray | dict[str, np.ndarray]:
    """Loads the array in a .npy file, or the arrays in an .npz file by name.

    Args:
        path: the file.
        option: the option that names the file, for messages.
        kinds: the suffixes that the option accepts, for messages.

    Raises:
        UsageError: the file cannot be read, or is not a regular file, such as a pipe.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return _texts(loaded) if isinstance(loaded, np.ndarray) else {k: _texts(v) for k, v in loaded.items()}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, SyntaxError, NotImplementedError) as error:
        raise UsageError(f"{option}: not a {kinds} file that can be read: {error}") from error


def _texts(array: np.ndarray) -> np.ndarray:
    """Returns the array; strings become objects, as models take them."""
    return array.astype(object) if array.dtype.kind == "U" else array


def _make_up(shape: Shape, dtype: np.dtype, contents: str, random: np.random.Generator, where: str) -> np.ndarray:
    try:
        if contents == "random":
            return random_array(shape, dtype, random)
        if dtype.kind == "O":
            return np.full(shape, contents, object)
        if contents == "range":
            return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        whole = np.broadcast_to(np.float32(0), shape)  # raises ValueError if no array can have this shape
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    try:
        return np.full(whole.shape, {"zeros": 0, "ones": 1}.get(contents, contents)).astype(dtype)
    except (ValueError, OverflowError):
        raise UsageError(f"{where}: '{contents}' is not one of random, zeros, ones, range, nor a number") from None


def random_array(shape: Shape, dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    """Returns random contents: floats in [0, 1), words, or 0 and 1 as integers, which index tables of two entries."""
    if dtype.kind == "O":
        return random.choice(np.array(_WORDS, object), shape)
    if dtype.kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape).astype(dtype)


def made_up_inputs(
    inputs: Sequence[TensorInfo], shapes: Mapping[str, Shape], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Generates random contents for inputs of fixed or given shape."""
    made = {}
    for info in inputs:
        shape = shapes.get(info.name, tuple(int(dim) for dim in info.shape if isinstance(dim, int)))
        made[info.name] = random_array(shape, info.dtype, random)
    return made


def check_shapes(shapes: Collection[str], inputs: Sequence[TensorInfo], option: str) -> None:
    """Checks that every input has a fixed or a given shape.

    Raises:
        UsageError: an input has neither.
    """
    for info in inputs:
        if info.name not in shapes and not info.is_static:
            sample = "x".join(str(dim) if isinstance(dim, int) else "1" for dim in info.shape)
            raise UsageError(
                f"input '{info.name}' has no fixed shape ({info}): add {option} {shlex.quote(f'{info.name}={sample}')}"
            )


def shape_text(shape: Sequence[int | str]) -> str:
    """Returns a shape as `--shape` spells it."""
    return "x".join(map(str, shape))


def check_names(names: Iterable[str], inputs: Sequence[TensorInfo], option: str) -> None:
    """Checks that names given on the command line are inputs of the model.

    Raises:
        UsageError: a name is not an input.
    """
    known = [info.name for info in inputs]
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name}: the model has no such input; it has {', '.join(map(str, inputs))}")


def is_artefact(path: str) -> bool:
    """Returns whether a file is an artefact, judged by its name or else its contents."""
    from ..driver.sources import reading  # noqa: F401  # makes the built-in formats known

    if path.endswith((".stw", *known_suffixes())):
        return path.endswith(".stw")
    return os.path.isfile(path) and zipfile.is_zipfile(path)  # a device has no end


def _version() -> str:
    from ..support.version import VERSION

    return VERSION
