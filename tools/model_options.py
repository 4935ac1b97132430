"""Options shared by all tools that take a model: shapes, inputs, how it is compiled, and what is printed."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..driver.options import CommandLineOption, Options
from ..runtime.executable import Executable
from ..runtime.program import Shape, TensorInfo
from ..sizes.dims_option import Dims, resolve_dims
from . import arguments
from .flags import UsageError

_Sizes = Mapping[str, int]
"""Sizes of symbolic dimensions, by name."""


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options about shapes and inputs, and how a model is compiled."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of a dynamic input"
    )
    group.add_argument("--dims", action="append", default=[], metavar="NAME=1:512", help="sizes of a dimension")
    group.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE", help="contents of an input, as for stepwell-run"
    )
    group.add_argument("--target", default="cpu", help="cpu (this machine), x86-64-v3, cuda:sm_90a, ... (default: cpu)")
    add_fields(group, "winograd", "cache")
    arguments.add_plugins(group)


def add_fields(parser: argparse._ActionsContainer, *names: str, **more: str) -> None:
    """Adds the flags of fields of `stepwell.Options`; `more` is appended to the help of the fields that it names."""
    known = {item.name: item for item in fields(Options)}
    for name in names:
        default, flag = known[name].default, known[name].metadata["flag"]
        text = flag.help + more.get(name, "")
        if flag.choices:
            parser.add_argument(flag.name, choices=flag.choices, default=default, help=text)
        elif flag.metavar:
            parser.add_argument(flag.name, metavar=flag.metavar, type=flag.parse, default=default, help=text)
        else:
            parser.add_argument(flag.name, action="store_true", help=text)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options about what is printed."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, also for errors")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def compile_options(options: argparse.Namespace, **more: Any) -> Options:
    """Builds compile options from the flags that a tool has and `--dims`; `more` overrides fields."""
    chosen: dict[str, Any] = {"dims": arguments.parse_dims(options.dims)}
    for item in fields(Options):
        flag: CommandLineOption | None = item.metadata.get("flag")
        if flag is None:
            continue
        name = flag.name.removeprefix("--").replace("-", "_")
        if name in options:
            given = getattr(options, name)
            chosen[item.name] = given if flag.choices or flag.metavar else flag.value if given else item.default
    return Options(**{**chosen, **more})


@dataclass(frozen=True)
class Given:
    """A model's inputs as given on the command line.

    Attributes:
        sets: sets of shapes, from `--shape`.
        dims: sizes of dimensions, from `--dims`.
        arrays: contents of inputs, from `--input`.
    """

    sets: Sequence[Mapping[str, Shape]]
    dims: Dims
    arrays: Mapping[str, np.ndarray]

    @staticmethod
    def read(options: argparse.Namespace, random: np.random.Generator | None = None) -> Given:
        """Reads `--shape`, `--dims` and `--input`; `random` generates contents.

        Raises:
            UsageError: an option has no known form.
        """
        random = np.random.default_rng(0) if random is None else random
        arrays = dict(arguments.parse_input(text, random) for text in options.input)
        return Given(arguments.parse_shape_sets(options.shape), arguments.parse_dims(options.dims), arrays)

    @property
    def shapes(self) -> dict[str, Shape]:
        """The only set of shapes, including those of given contents.

        Raises:
            UsageError: there are several sets, or a shape differs from that of the contents.
        """
        if len(self.sets) > 1:
            raise UsageError("several sets of --shape are given; give one for each input")
        for name, array in self.arrays.items():
            if self.sets[0].get(name, array.shape) != array.shape:
                raise UsageError(
                    f"--shape {name} contradicts --input {name}, whose shape is {arguments.shape_text(array.shape)}"
                )
        return {**self.sets[0], **{name: array.shape for name, array in self.arrays.items()}}

    def every_set(self) -> list[dict[str, Shape]]:
        """Returns the sets of shapes, each with those of given contents."""
        return [Given([each], self.dims, self.arrays).shapes for each in self.sets]

    def check_names(self, inputs: Sequence[TensorInfo]) -> None:
        """Checks that the names are inputs of the model.

        Raises:
            UsageError: a name is not an input.
        """
        for each in self.sets:
            arguments.check_names(each, inputs, "--shape")
        arguments.check_names(self.arrays, inputs, "--input")

    def complete(self, inputs: Sequence[TensorInfo], known: _Sizes | None = None) -> dict[str, Shape]:
        """Returns a shape for every tensor input: given, fixed, or derived from sizes of dimensions.

        Args:
            inputs: the model's inputs.
            known: further sizes of dimensions; the largest sizes in `--dims` take precedence.

        Raises:
            UsageError: an input is unknown, or has no shape.
        """
        self.check_names(inputs)
        shapes = {**self.shapes_of_sizes(inputs, known), **self.shapes}
        arguments.check_shapes(shapes, [info for info in inputs if info.kind == "tensor"], "--shape")
        return shapes

    def shapes_of_sizes(self, inputs: Sequence[TensorInfo], known: _Sizes | None = None) -> dict[str, Shape]:
        """Returns the shapes that follow from sizes of dimensions; `known` are further sizes."""
        given, found = self.shapes, {}
        sizes = {**(known or {}), **_greatest(self.dims)}
        for info in inputs:
            bound = zip(info.shape, given.get(info.name, ()), strict=False)
            sizes.update({dim: size for dim, size in bound if isinstance(dim, str)})
        resolved = resolve_dims(self.dims, inputs).inputs if self.dims else inputs
        for info, named in zip(inputs, resolved, strict=True):
            dims = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in named.shape]
            if info.kind == "tensor" and all(isinstance(dim, int) for dim in dims):
                found[info.name] = tuple(int(dim) for dim in dims)
        return found

    def all_inputs(
        self, inputs: Sequence[TensorInfo], random: np.random.Generator, known: _Sizes | None = None
    ) -> dict[str, np.ndarray]:
        """Returns contents for every input, given or generated.

        Raises:
            UsageError: an input is unknown, has no shape, or is not a tensor.
        """
        shapes = self.complete(inputs, known)
        for info in inputs:
            if info.kind != "tensor":
                raise UsageError(f"input '{info.name}' can only be given in Python, as it is not a tensor: {info}")
        absent = [info for info in inputs if info.name not in self.arrays]
        return {**self.arrays, **arguments.made_up_inputs(absent, shapes, random)}


def sizes_of_artefact(executable: Executable) -> tuple[dict[str, int], dict[str, Shape]]:
    """Returns the largest sizes of an artefact's ranges, and its shapes if it has code for only one set.

    Returns:
        Sizes by the names of dimensions, and shapes by input; empty if there is code for several sets of shapes.
    """
    sizes = {name: values.high for name, values in executable.ranges.items()}
    sets = {program.input_shapes for program in executable.programs if program.bounds is None}
    if len(sets) != 1 or sizes:
        return sizes, {}
    (only,) = [program for program in executable.programs if program.bounds is None][:1]
    return sizes, {info.name: tuple(int(dim) for dim in info.shape) for info in only.inputs}


def require_choice(executable: Executable, given: Mapping[str, Shape]) -> None:
    """Checks that the given shapes select one of several programs.

    Raises:
        UsageError: they do not; the message lists the options to choose from.
    """
    open_inputs = [info for info in executable.inputs if not info.is_static and info.name not in given]
    programs = [program for program in executable.programs if program.bounds is None]
    if open_inputs and len(programs) > 1:
        choices = [_options(program.inputs, [info.name for info in open_inputs]) for program in programs]
        raise UsageError(f"there is code for several shapes: add one of {' or '.join(dict.fromkeys(choices))}")


def _options(inputs: Sequence[TensorInfo], names: Sequence[str]) -> str:
    return " ".join(
        f"--shape {shlex.quote(f'{info.name}={arguments.shape_text(info.shape)}')}"
        for info in inputs
        if info.name in names
    )


def middle_sizes(dims: Dims) -> Dims:
    """Returns sizes in the middle of ranges; other sizes as they are."""
    return {name: _middle(sizes) if isinstance(sizes, tuple) else sizes for name, sizes in dims.items()}


def _middle(sizes: Sequence[int]) -> int:
    low, high, step = (*sizes, 1)[:3]
    return low + (high - low) // 2 // step * step


def _greatest(dims: Mapping[str, Any]) -> dict[str, int]:
    """The largest size of each dimension."""
    found: dict[str, int] = {}
    for name, given in dims.items():
        last = given[-1] if isinstance(given, list) else given
        if not isinstance(last, str):
            found[name] = last[1] if isinstance(last, tuple) else last
    return found
