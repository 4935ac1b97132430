"""Drives a model through the phases and makes what the runtime runs; nothing else knows all of them.

What only a real compile needs (MLIR, ONNX, the passes) is imported where it is used: a start from the cache does
without.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .runtime import artefact, slow, store
from .runtime.buckets import named_sizes, parse_dims
from .runtime.cache import default_cache, is_turned_off
from .runtime.dims_option import resolve_dims
from .runtime.executable import Executable
from .runtime.loaded_plan import LoadedPlan
from .runtime.program import PRECISIONS, Shape, TensorInfo
from .runtime.sizes import with_derived
from .source import ModelSource
from .specializer import Settings, Specializer
from .version import fingerprint

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from .passes.instrumentation import Instrumentation

FALLBACK = ("warn", "error", "quiet")
CACHE = (True, False, "require")


@dataclass(frozen=True)
class Options:
    """How to compile.

    Attributes:
        shapes: input shapes by name, for which code is made at once rather than by the first call that has them.
        cache: whether to keep what was compiled, and use it again; "require" makes it an error where code is not there
            (`CacheMissError`), and so does `STEPWELL_CACHE=require`. `STEPWELL_CACHE_DIR` says where it is.
        codegen_threads: how many kernels are compiled at the same time: of large models in so many processes, this one
            counted, where there are processors for them.
        dims: what sizes the dimensions that vary may have, by name: a number, (low, high), (low, high, step), a list of
            upper bounds of buckets, or what it follows from: another dimension, or a sum of such, as text. One compile
            then serves all of them (docs/dynamic_shapes.md).
        winograd: whether 3x3 convolutions may be computed by Winograd's method where that is faster. It rounds more
            often than the direct method; errors are about twice as large (docs/numerics.md).
        precision: what products of float32 are computed in, whose sums stay float32: "f32", or on GPUs faster "tf32",
            "bf16" or "f16". Code for CPUs gives the numbers that a GPU would, and takes longer for that
            (docs/numerics.md).
        fallback: what to do about nodes that cannot be compiled, which then run on the host, between compiled pieces of
            the model (docs/fallback.md): "warn" of them, refuse the model with an "error" that names them, or nothing
            ("quiet").
        reached: told the name of each phase, the module as it is there, and the parameters that it names.
        instrumentation: told before and after every pass; see `passes/instrumentation.py`.
        substitutes: MLIR files with kernels to put in the place of others, by the names of these (docs/kernels.md).
        guarded: whether to compile in a child process, so that a crash of native code, which would end this one, is a
            `CompilerCrash` with a reproducer (docs/failures.md); so does `STEPWELL_GUARDED=1`. Not with `reached` or
            `instrumentation`, which live in this process.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    cache: bool | str = True
    codegen_threads: int = 2
    winograd: bool = True
    precision: str = "f32"
    fallback: str = "warn"
    reached: Callable[[str, ir.Module, Mapping[str, np.ndarray]], None] | None = None
    instrumentation: Sequence[Instrumentation] = ()
    substitutes: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict)
    guarded: bool = False


def compile(model: Any, target: str = "cpu", threads: int | None = None, options: Options | None = None) -> Executable:
    """Compiles a model to native code.

    A model whose inputs have symbolic dimensions is compiled once for all sizes that `Options.dims` name. Without these
    it is compiled for each set of input shapes when a call first has it, or ahead through `Options.shapes` and
    `Executable.prepare`.

    Args:
        model: the path of an `.onnx` or `.mlir` file, bytes of one, an `onnx.ModelProto`, or an MLIR module.
        target: what to make code for: "cpu" is this machine; "x86-64-v3" and others are levels of CPUs, "cuda:sm_90a"
            and others GPUs (docs/gpu.md).
        threads: how many threads a call uses; by default one for each core.
        options: how to compile.

    Returns:
        A callable that takes and gives numpy arrays.

    Raises:
        SourceError: what was given is no model, or cannot be read.
        ModelError: the model is damaged, or has a node that can neither be compiled nor run on the host; names it.
        TargetError: there is no such target.
        PassFailure, PassError, CodegenError: the compiler failed at a pass, a phase or a kernel; names the place.
    """
    options = options or Options()
    cache = default_cache() if options.cache else None
    if options.fallback not in FALLBACK:
        raise ValueError(f"fallback is {options.fallback!r}, and must be one of {', '.join(FALLBACK)}")
    if options.cache not in CACHE:
        raise ValueError(f"cache is {options.cache!r}, and must be one of {', '.join(map(repr, CACHE))}")
    if options.guarded and (options.reached or options.instrumentation):
        raise ValueError("guarded: what 'reached' and 'instrumentation' are told of would happen in another process")
    if options.cache and is_turned_off():
        slow.warn("the compiler", ["the cache is turned off (STEPWELL_CACHE): every start compiles again"])
    if not isinstance(target, str):
        raise ValueError(f"target is {target!r}, and must be a name")
    if options.precision not in PRECISIONS:
        raise ValueError(f"precision is {options.precision!r}, and must be one of {', '.join(PRECISIONS)}")
    if options.precision != "f32":
        target = f"{target}+{options.precision}"
    source = replace(ModelSource.read(model), cache=cache)
    name, inputs, outputs = interface_of(source)
    resolved = resolve_dims(options.dims, inputs)
    dims, inputs = resolved.dims, resolved.inputs
    specializer = specializer_of(source, inputs, target, options)
    kept = artefact.Source(source.kind, source.contents) if source.is_whole else None
    ranges, buckets = parse_dims(dims, inputs, resolved.derived) if dims else ({}, [])
    programs, unranged = specializer.for_buckets(inputs, buckets, resolved.derived) if buckets else ([], "")
    executable = Executable(
        inputs, outputs, programs, specialize=specializer, threads=threads, name=name, source=kept, ranges=ranges
    )
    executable.unranged = unranged
    for sizes in [] if programs or not dims else named_sizes(dims):
        sizes = with_derived(sizes, resolved.derived)
        executable.try_prepare(
            {info.name: tuple(int(sizes.get(str(dim), dim)) for dim in info.shape) for info in inputs}
        )
    if options.shapes or all(info.is_static for info in inputs):
        executable.try_prepare(options.shapes)
    return executable


def interface_of(source: ModelSource) -> tuple[str, tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """A model's name, what goes into it and what comes out: from the cache, where it was asked for before.

    Raises:
        ModelError: the model cannot be read.
    """
    cache = source.cache
    if cache is None:
        return source.name, *source.interface()
    key = store.key_of(fingerprint(), source.fingerprint)
    known = store.get_interface(cache, key)
    if known is None:
        known = source.name, *source.interface()
        store.put_interface(cache, key, *known)
    return known


def specializer_of(source: ModelSource, inputs: tuple[TensorInfo, ...], target: str, options: Options) -> Specializer:
    """What makes the code of a model."""
    is_watched = options.reached is not None or len(options.instrumentation) > 0
    settings = Settings(
        target,
        None if options.substitutes else source.cache,
        options.codegen_threads,
        options.winograd,
        options.fallback,
        options.reached,
        tuple(options.instrumentation),
        options.cache == "require" or os.environ.get("STEPWELL_CACHE") == "require",
        tuple((kernel, Path(path)) for kernel, path in options.substitutes.items()),
        options.guarded or (os.environ.get("STEPWELL_GUARDED") == "1" and not is_watched),
    )
    return Specializer(source, tuple(info.name for info in inputs), settings)


def load(path: str | os.PathLike[str], threads: int | None = None) -> Executable:
    """Loads a model that `Executable.save` or `stepwell-compile` wrote; MLIR is not needed.

    Where the model itself was saved too, and MLIR is installed, code for further input shapes is made when it is called
    for.

    Args:
        path: the `.stw` file.
        threads: how many threads a call uses; by default one for each core.

    Raises:
        ArtefactError: the file is damaged, or was made for another kind of machine.

    Warns:
        SlowWarning: its code leaves instructions unused that this machine has.
    """
    stored = artefact.read(Path(path))
    specializer, compile_piece = None, None
    if stored.source is not None and importlib.util.find_spec("mlir") is not None:
        source = ModelSource(stored.source.kind, stored.source.data, cache=default_cache())
        specializer = specializer_of(source, stored.inputs, "cpu", Options())
        compile_piece = specializer.compile_piece
    executable = Executable(
        stored.inputs,
        stored.outputs,
        stored.programs,
        specialize=specializer,
        threads=threads,
        name=stored.name,
        source=stored.source,
        steps=None if stored.plan is None else LoadedPlan(stored.plan, compile_piece, stored.name),
    )
    slow.warn(stored.name, slow.generic_code(executable.programs))
    return executable
