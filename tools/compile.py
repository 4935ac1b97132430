"""`stepwell-compile`: turns a model into an artefact, or takes it to a phase on the way there."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..runtime import artefact, artefact_writer, safetensors
from ..runtime.errors import InputError
from ..runtime.executable import Executable
from ..runtime.program import Program, Shape
from . import arguments
from .check import check
from .console import Steps, duration, print_table, progress
from .flags import UsageError

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

NAME = "stepwell-compile"
_OBJECT = "object"
_PHASE = "stepwell.phase"
_DESCRIPTION = """Compiles an ONNX file (or MLIR that was printed at some phase) to an artefact for stepwell-run.

A model whose shapes vary needs at least one --shape for each of its inputs; more of them make code for more shapes:
    stepwell-compile rec.onnx -o rec.stw --shape x=1x3x48x320 --shape x=1x3x48x640
Or one program for a range of sizes: low:high, low:high:step, a number, or the upper bounds of several as 16/64/256:
    stepwell-compile bert.onnx -o bert.stw --dims batch=1:8,length=1:512
Several targets in one artefact, of which the best is taken where it is loaded: --target=x86-64-v3,x86-64-v4"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(argv)
    if argv is not None:
        return arguments.run_tool(NAME, lambda: _run(options), arguments.tells(options))
    target = options.target.split(",")[0]
    return arguments.run_supervised_tool(NAME, lambda: _run(options), target, arguments.tells(options))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .stw; - for stdout")
    parser.add_argument(
        "--target", default="cpu", help="cpu (this machine), x86-64-v3, cuda:sm_90a, ... (default: %(default)s)"
    )
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="of a dynamic input")
    parser.add_argument("--dims", action="append", default=[], metavar="NAME=1:512", help="all sizes of a dimension")
    parser.add_argument("--compile-to", metavar="PHASE", help="stop there and write the IR")
    parser.add_argument("--compile-from", metavar="PHASE", help="the phase that the given MLIR is in")
    parser.add_argument(
        "--dump-phases", metavar="DIR", help="write the IR of every phase, each of which can be fed back"
    )
    parser.add_argument("--kernel", metavar="NAME", help="with --compile-to: write this kernel alone")
    parser.add_argument(
        "--substitute",
        action="append",
        default=[],
        metavar="NAME=@FILE.mlir",
        help="put a kernel, written by --kernel and edited, in the place of this one",
    )
    parser.add_argument("--keep-model", action="store_true", help="store the model too: to compile for further shapes")
    parser.add_argument("--cubins", action="store_true", help="of GPUs, store machine code too: takes ptxas")
    parser.add_argument("--no-winograd", action="store_true", help="compute all convolutions directly: slower, exacter")
    arguments.add_precision(parser)
    arguments.add_fallback(parser)
    parser.add_argument(
        "--check", action="store_true", help="only list the nodes without native code; exit code 1: some"
    )
    parser.add_argument(
        "--opt-report",
        nargs="?",
        const="text",
        metavar="json|FILE",
        help="say what became of every node and what bounds every kernel: as text, as json, or to a file as JSON",
    )
    parser.add_argument("--json", action="store_true", help="what was made, or why it failed, as one JSON object")
    parser.add_argument("--no-cache", action="store_true", help="compile all of it anew")
    parser.add_argument("--require-cached", action="store_true", help="fail where code is not in the cache")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.check:
        sets = arguments.parse_shape_sets(options.shape)
        if len(sets) > 1:
            raise UsageError("--check takes one --shape for each input")
        return check(options.model, sets[0], options.json)
    if options.json and (options.opt_report or options.compile_to):
        raise UsageError("--json goes with neither --opt-report nor --compile-to")
    return _compile_to_file(options)


def _compile_to_file(options: argparse.Namespace) -> int:
    watched = any((options.compile_to, options.compile_from, options.dump_phases, options.no_cache))
    if options.require_cached and watched:
        raise UsageError("--require-cached: the IR of phases does not come from the cache, nor what is compiled anew")
    if options.kernel and options.compile_to in (None, _OBJECT):
        raise UsageError("--kernel goes with --compile-to=PHASE")
    from ..lowering import phases  # not needed for --help, and it loads every pass there is

    targets = options.target.split(",")
    known = (*phases.names(targets[0]), _OBJECT)
    for phase in filter(None, (options.compile_to, options.compile_from)):
        if phase not in known:
            raise UsageError(f"there is no phase '{phase}'; the phases are {', '.join(known)}")
    sets = arguments.parse_shape_sets(options.shape)
    stop = None if options.compile_to == _OBJECT else options.compile_to
    if (stop or options.dump_phases) and len(sets) * len(targets) > 1:
        raise UsageError("--compile-to and --dump-phases take one target and one --shape for each input")
    with progress("compiling", total=(len(known) - 1) * len(sets) * len(targets)) as steps:
        folder = None if options.dump_phases is None else Path(options.dump_phases)
        watcher = _Watcher(known[:-1], steps, options.compile_from, stop, folder, options.kernel)
        start = time.perf_counter()
        try:
            executables = [_compile(options, target, sets, watcher) for target in targets]
        except _Stopped as stopped:
            return _write_text(options.output, stopped.text)
    if stop is not None:
        raise UsageError(f"--compile-to={stop}: the model is past that phase already")
    path = Path(options.output or Path(options.model).with_suffix(".stw").name)
    if options.keep_model and executables[0].source is None:
        raise UsageError(f"--keep-model: {options.model} is in several files")
    models = [executable.stored(keep_model=options.keep_model) for executable in executables]
    for target, executable, model in zip(targets, executables, models, strict=True):
        if not (model.programs or model.plan or model.source):
            raise InputError(_no_code(target, executable))
    artefact_writer.write(path, _merged(models), cubins=options.cubins)
    made = f"{path}: {path.stat().st_size / 1e6:.1f} MB, made in {duration(time.perf_counter() - start)}"
    if options.json:
        fallbacks = [found.record() for found in executables[0].fallbacks]
        print(json.dumps({"schema": 1, "output": str(path), "bytes": path.stat().st_size, "fallbacks": fallbacks}))
        return 0
    if options.opt_report == "json":  # nothing else on stdout
        print(json.dumps(executables[0].report().record(), indent=1))
        print(made, file=sys.stderr)
        return 0
    _summarise([program for executable in executables for program in executable.programs])
    _list_fallbacks(executables[0])
    if options.opt_report is not None:
        _report(options.opt_report, executables[0])
    print(made)
    return 0


def _no_code(target: str, executable: Executable) -> str:
    """Why an artefact would hold nothing that runs."""
    why = f"--dims: no program for {target} serves these sizes: {executable.unranged}; " if executable.unranged else ""
    return f"{why}name the sizes one by one (--dims n=16/64, or --shape), or take the model along (--keep-model)"


def _report(where: str, executable: Executable) -> None:
    report = executable.report()
    if where == "text":
        print(report)
    else:
        Path(where).write_text(json.dumps(report.record(), indent=1))


def _merged(models: Sequence[artefact.Artefact]) -> artefact.Artefact:
    """One artefact with the code for all targets."""
    first, *others = models
    programs, plan = first.programs, first.plan
    for other in others:
        programs += other.programs
        plan = plan.merged(other.plan) if plan and other.plan else plan or other.plan
    return replace(first, programs=programs, plan=plan)


def _list_fallbacks(executable: Executable) -> None:
    for found in executable.fallbacks:
        print(f"on the host: {found}")


def _compile(
    options: argparse.Namespace, target: str, sets: Sequence[Mapping[str, Shape]], watcher: _Watcher
) -> Executable:
    from .. import Options, compile

    # What comes from the cache passes no phases, and what is watched does not come from it.
    watched = any((options.compile_to, options.compile_from, options.dump_phases))
    chosen = Options(
        dims=arguments.parse_dims(options.dims),
        cache="require" if options.require_cached else not (watched or options.no_cache),
        winograd=not options.no_winograd,
        precision=options.precision,
        fallback=options.fallback,
        reached=watcher if watched else None,
        substitutes=dict(map(_substitute, options.substitute)),
    )
    executable = compile(options.model, target=target, options=chosen)
    for shapes in [] if options.dims and sets == [{}] else sets:
        arguments.check_names(shapes, executable.inputs, "--shape")
        arguments.check_shapes(shapes, executable.inputs, "--shape")
        executable.prepare(shapes)
    return executable


def _substitute(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=@")
    if not name or not path:
        raise UsageError(f"--substitute {text}: write it as kernel_7=@file.mlir")
    return name, path


class _Stopped(Exception):
    """The phase that was asked for is reached; `text` is the module there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


@dataclass
class _Watcher:
    """Is told of every phase: shows it, writes it, stops there."""

    names: Sequence[str]
    steps: Steps
    start: str | None
    stop: str | None
    folder: Path | None
    kernel: str | None = None
    _seen: list[str] = field(default_factory=list)

    def __call__(self, phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        """Called by the compiler at the end of each phase."""
        if not self._seen:
            phase = _declared_phase(module) or phase
            if self.start not in (None, phase):
                raise UsageError(f"--compile-from={self.start}: the module is in phase {phase}")
        self._seen.append(phase)
        self.steps.next(f"compiling: after {phase}")
        if self.folder is not None:
            self._dump(self.folder, phase, module, parameters)
        if phase == self.stop:
            raise _Stopped(_text(module, phase) if self.kernel is None else _kernel_text(module, self.kernel, phase))

    def _dump(self, folder: Path, phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.names.index(phase)}-{phase}.mlir").write_text(_text(module, phase), encoding="utf-8")
        with open(folder / "parameters.safetensors", "wb") as file:
            file.writelines(safetensors.chunks(parameters))


def _kernel_text(module: ir.Module, kernel: str, phase: str) -> str:
    from ..lowering.substitution import isolate

    return isolate(module, kernel, phase)


def _declared_phase(module: ir.Module) -> str | None:
    attributes = module.operation.attributes
    return str(attributes[_PHASE]).strip('"') if _PHASE in attributes else None


def _text(module: ir.Module, phase: str) -> str:
    """The module with its phase written on it and the model's nodes as locations, so that it can be fed back."""
    from mlir import ir

    attributes = module.operation.attributes
    with module.context:
        attributes[_PHASE] = ir.StringAttr.get(phase)
    text = str(module.operation.get_asm(enable_debug_info=True))
    del attributes[_PHASE]
    return text


def _write_text(output: str | None, text: str) -> int:
    if output in (None, "-"):
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, encoding="utf-8")
    return 0


def _summarise(programs: Sequence[Program]) -> None:
    """Prints what was made: a line for each program."""
    headers = ("target", "inputs", "kernels", "GFLOP", "parameters", "scratch")
    print_table(headers, [_row(program) for program in programs], numbers=headers[2:])


def _row(program: Program) -> tuple[str, ...]:
    flops = sum(kernel.flops * kernel.calls for kernel in program.kernels)
    parameters = sum(array.nbytes for array in program.parameters.values())
    return (
        program.target.name,
        _inputs(program),
        str(len(program.kernels)),
        f"{flops / 1e9:.3g}",
        f"{parameters / 1e6:.1f} MB",
        f"{program.arena_bytes / 1e6:.1f} MB",
    )


def _inputs(program: Program) -> str:
    if program.bounds is not None:
        return " ".join(f"{name}={values.low}:{values.high}" for name, values in program.bounds.ranges.items())
    return " ".join(f"{info.name}={'x'.join(map(str, info.shape))}" for info in program.inputs)


if __name__ == "__main__":
    sys.exit(main())
