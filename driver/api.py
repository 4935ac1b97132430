"""The public functions that compile and load models.

Modules that only a real compile needs (MLIR, ONNX, the passes) are imported where they are used, so that a start from
the cache does not load them.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ..runtime.artefact import reader, store
from ..runtime.cache.cache import Cache, default_cache, is_turned_off
from ..runtime.cache.keys import key_of
from ..runtime.compiled_model import CompiledModel
from ..runtime.executable import Executable
from ..runtime.execution.data_check import checked_in
from ..runtime.program import TensorInfo
from ..runtime.report import slow
from ..runtime.specialization.interfaces import RangedCode
from ..sizes.bounds import with_derived
from ..sizes.buckets import named_sizes, parse_dims
from ..sizes.deduced import DeducedSizes
from ..sizes.dims_option import resolve_dims
from ..support import environment
from ..support.errors import OptionError
from ..targets.registry import check_target
from .caching.fingerprint import fingerprint
from .options import Options, options_of
from .serving.specializer import Specializer
from .setup import Setup
from .sources.reading import read_source, source_of
from .sources.source import ModelSource
from .sources.torch import TorchSource

if TYPE_CHECKING:
    from ..frontend.torch.live import LiveProgram


@overload
def compile(
    model: Any,
    target: str,
    /,
    *,
    threads: int | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Executable: ...


@overload
def compile(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Executable: ...


def compile(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Executable:
    """Compiles a model to native code.

    A model whose inputs have symbolic dimensions is compiled once for all sizes that `Options.dims` names. Without
    `Options.dims` it is compiled for the shapes of the first call, and, at a call with a second size, once for a range
    that contains both and many more (docs/dynamic_shapes.md). `Options.shapes` and `Executable.prepare` compile ahead
    of calls.

    Args:
        model: the path of an `.onnx`, `.mlir` or `.pt2` file, the bytes of an `.onnx` or `.mlir` file, an
            `onnx.ModelProto`, an MLIR module, a `torch.nn.Module`, or a `torch.export.ExportedProgram`
            (docs/pytorch.md).
        args: example arguments with which a module of torch is exported; a string is taken as the target.
        kwargs: example keyword arguments of the module.
        dynamic_shapes: the dimensions of these arguments that may vary, as `torch.export.export` takes them.
        target: the target of the code: "cpu" is this machine; "x86-64-v3" and others are levels of CPUs, "cuda:sm_90a"
            and others GPUs (docs/gpu.md).
        threads: number of threads of a call; by default one for each core.
        options: how to compile: `Options`, or a mapping from the names of its fields to values.

    Returns:
        A callable that takes and returns numpy arrays; for a module or an exported program of torch, one that takes and
        returns what the module does (`TorchExecutable`).

    Raises:
        OptionError: an option is unknown, or has a value that is not allowed.
        SourceError: the argument is not a model, or cannot be read.
        ModelError: the model is damaged, or has a node that can neither be compiled nor run on the host; names it.
        TargetError: the target is unknown.
        PassFailure, PassError, CodegenError: the compiler failed at a pass, a phase or a kernel; names it.
    """
    environment.check()
    options = options_of(options, Options)
    if isinstance(args, str):
        args, target = None, args
    if options.cache and is_turned_off():
        slow.warn_of("the compiler", ["the cache is turned off (STEPWELL_CACHE): every start compiles again"])
    if not isinstance(target, str):
        raise OptionError(f"target is {target!r}, and must be a name")
    setup = Setup.of(target, options)
    check_target(setup.target)
    if options.passes:
        from .route import check_added

        check_added(options.passes, setup.target)
    source = read_source(model, args, kwargs, dynamic_shapes)
    program = source.program if isinstance(source, TorchSource) else None
    if program is None:
        return _compiled(source, setup, lambda made: Executable(made, threads))
    from ..frontend.torch.executable import TorchExecutable

    return _compiled(source, setup, lambda made: TorchExecutable(made, threads, program))


def compile_piece(program: LiveProgram, setup: Setup, threads: int | None = None) -> Executable:
    """Compiles a piece of a program of torch, called by position on contiguous tensors."""
    names = {str(dim) for info in program.info.inputs for dim in info.dims or ()}
    dims = {name: given for name, given in setup.options.dims.items() if name in names}
    setup = setup.changed(dims=dims, shapes={}, substitutes={})
    return _compiled(TorchSource(program=program), setup, lambda made: Executable(made, threads))


def _compiled(source: ModelSource, setup: Setup, executable_of: Callable[[CompiledModel], Executable]) -> Executable:
    options = setup.options
    cache = default_cache() if options.cache else None
    source = replace(source, cache=cache, checked=options.checked, target=setup.target)
    name, inputs, outputs = interface_of(source)
    declared = source.declared_ranges(inputs) if options.ranges and not options.shapes else {}
    resolved = resolve_dims(options.dims or declared, inputs)
    dims, inputs = resolved.dims, resolved.inputs
    specializer = specializer_of(source, inputs, setup)
    kept = reader.ArtefactSource(source.kind, source.contents) if source.is_whole else None
    ranges, buckets = parse_dims(dims, inputs, resolved.derived, setup.divides_ranges) if dims else ({}, [])
    made = specializer.for_buckets(inputs, buckets, resolved.derived) if buckets else RangedCode()
    programs, unranged = made.programs, made.reason
    if made.steps is not None:
        ahead = made.steps.prepare_ranges(inputs, DeducedSizes(dict(ranges), dict(resolved.derived)))
        unranged = "; ".join(dict.fromkeys(ahead.reasons))
    compiled = CompiledModel(inputs, outputs, programs, specializer, name, kept, made.steps, ranges, unranged)
    executable = executable_of(compiled)
    if unranged:
        executable.watch.advice = None  # a warning has reported why ranges cannot be used
    for sizes in [] if programs or not dims else named_sizes(dims):
        sizes = with_derived(sizes, resolved.derived)
        executable.try_prepare(
            {info.name: tuple(int(sizes.get(str(dim), dim)) for dim in info.shape) for info in inputs}
        )
    if options.shapes or all(info.is_static for info in inputs):
        executable.try_prepare(options.shapes)
    return executable


def interface_of(source: ModelSource) -> tuple[str, tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Returns a model's name, inputs and outputs; from the cache if they were read before.

    Raises:
        ModelError: the model cannot be read.
    """
    cache = source.cache
    if cache is None:
        return source.name, *source.interface()
    key = key_of(fingerprint(), source.fingerprint)
    known = store.get_interface(cache, key)
    if known is None:
        known = source.name, *source.interface()
        store.put_interface(cache, key, *known)
    if isinstance(source, TorchSource) and source.program is not None and not source.program.is_decomposed:
        _remember_interface(source.program, cache, key)
    return known


def _remember_interface(program: LiveProgram, cache: Cache, key: str) -> None:
    """Reads the call interface of a program from the cache, or stores it there: computing it takes seconds."""
    from ..frontend.torch.interface import CallInterface

    known = cache.get("torch", key_of(key, "interface"))
    if known is None:
        cache.put("torch", key_of(key, "interface"), program.interface.text().encode())
    else:
        program.interface = CallInterface.read(bytes(known))


def specializer_of(source: ModelSource, inputs: tuple[TensorInfo, ...], setup: Setup) -> Specializer:
    """Creates the compiler of one model for any input shapes."""
    # Code compiled with substituted kernels must not enter the cache as the model's own.
    cache = None if setup.options.substitutes else source.cache
    names, setup = tuple(info.name for info in inputs), replace(setup, cache=cache)
    if not isinstance(source, TorchSource):
        return Specializer(source, names, setup)
    from .serving.torch_specializer import TorchSpecializer

    return TorchSpecializer(source, names, setup, compile_piece_of=functools.partial(compile_piece, setup=setup))


def load(path: reader.ArtefactFile, threads: int | None = None) -> Executable:
    """Loads a model that `Executable.save` or `stepwell-compile` wrote; does not need MLIR.

    If the file also holds the model, and MLIR is installed, calls with further input shapes are compiled on demand.

    Args:
        path: the `.stw` file, its contents as bytes, or a file that is open for reading bytes.
        threads: number of threads of a call; by default one for each core.

    Raises:
        ArtefactError: the file is damaged, or was compiled for another kind of machine.

    Warns:
        SlowWarning: its code does not use all instruction sets of this machine.
    """
    environment.check()
    stored = reader.read(path)
    specializer = None
    if stored.source is not None and importlib.util.find_spec("mlir") is not None:
        options = Options(checked=checked_in(stored.programs))
        source = source_of(stored.source.kind, stored.source.data, cache=default_cache(), checked=options.checked)
        specializer = specializer_of(source, stored.inputs, Setup("cpu", options, is_loaded=True))
    executable = Executable(CompiledModel.of(stored, specializer, stored.source), threads)
    slow.warn_of(stored.name, slow.generic_code(executable.programs))
    return executable
