"""`stepwell-compile`: compiles a model to an artefact, or to the IR of an earlier phase."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.artefact import reader, writer
from ..runtime.executable import Executable
from ..runtime.program import Program
from ..runtime.remarks import to_yaml
from ..sizes.dims_option import one_by_one
from ..support.errors import InputError
from ..support.warning import warn
from ..support.wording import duration
from . import arguments, model_options, running, training_step
from .check import check
from .console import print_table, progress
from .flags import UsageError
from .model_options import Given
from .outputs import ARTEFACT, IR, REMARKS, REPORT, OutputFile, Outputs, default_name
from .phase_dumps import PhaseDump, PhaseWatcher, StoppedAtPhase

if TYPE_CHECKING:
    pass

NAME = "stepwell-compile"
_OBJECT = "object"
_NOT_OF_TRAINING = (
    *("compile_to", "compile_from", "dump_phases", "kernel", "substitute", "keep_model", "cubins"),
    *("remarks_output_file", "require_cached"),
)
"""Options that do not apply to training steps."""
_DESCRIPTION = """Compiles an ONNX file (or MLIR printed at some phase) to an artefact for stepwell-run.

A model with symbolic dimensions needs --shape for each of these inputs; repeated sets add code for further shapes:
    stepwell-compile rec.onnx -o rec.stw --shape x=1x3x48x320 --shape x=1x3x48x640
Or one program for a range of sizes: low:high, low:high:step, a number, or upper bounds of several ranges as 16/64/256:
    stepwell-compile bert.onnx -o bert.stw --dims batch=1:8,length=1:512
Several targets in one artefact; loading it selects the best one for the machine: --target=x86-64-v3,x86-64-v4
A training step, for Trainer.load:
    stepwell-compile net.onnx -o step.stw --loss cross_entropy --shape x=64x8 --shape target=64 --memory-budget 0.7"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(argv)
    return running.run_isolated(NAME, _run, options, options.target.split(",")[0], argv)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help=arguments.MODEL)
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .stw; - for stdout")
    parser.add_argument("--compile-to", metavar="PHASE", help="stop at this phase and write the IR")
    parser.add_argument("--compile-from", metavar="PHASE", help="the phase that the given MLIR is in")
    parser.add_argument(
        "--dump-phases", metavar="DIR", help="write the IR of every phase, each of which can be fed back"
    )
    parser.add_argument("--kernel", metavar="NAME", help="with --compile-to: write only this kernel")
    parser.add_argument(
        "--substitute",
        action="append",
        default=[],
        metavar="NAME=@FILE.mlir",
        help="replace this kernel by an edited one that --kernel wrote",
    )
    parser.add_argument("--keep-model", action="store_true", help="also store the model, to compile for further shapes")
    parser.add_argument("--cubins", action="store_true", help="for GPUs, also store machine code; needs ptxas")
    model_options.add_fields(parser, "precision", "low_rank", "batch_invariant", "checked", "fallback", "tuning")
    parser.add_argument(
        "--check", action="store_true", help="only list the nodes without native code; exit code 1 if there are any"
    )
    parser.add_argument(
        "--opt-report",
        nargs="?",
        const="text",
        metavar="json|FILE",
        help="report how every node was compiled and what bounds every kernel: as text, with --opt-report=json as "
        "JSON, with --opt-report=FILE as JSON in a file",
    )
    parser.add_argument(
        "--remarks-output-file", metavar="FILE", help="write what passes did and did not do as LLVM's remarks, in YAML"
    )
    model_options.add_model_options(parser)
    training_step.add_training_options(parser)
    model_options.add_output_options(parser)
    parser.add_argument("--require-cached", action="store_true", help="fail if code is not in the cache")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.check:
        return check(options.model, Given.read(options), options.json)
    if options.json and (options.opt_report or options.compile_to):
        raise UsageError("--json cannot be combined with --opt-report or --compile-to")
    if training_step.is_training(options, *_NOT_OF_TRAINING):
        return training_step.compile_step(options)
    return _compile_to_file(options)


def _compile_to_file(options: argparse.Namespace) -> int:
    instrumented = any((options.compile_to, options.compile_from, options.dump_phases, options.no_cache))
    if options.require_cached and instrumented:
        raise UsageError(
            "--require-cached cannot be combined with options that bypass the cache: dumps of IR, --no-cache"
        )
    if options.kernel and options.compile_to in (None, _OBJECT):
        raise UsageError("--kernel needs --compile-to=PHASE")
    from ..driver import route  # not needed for --help, and loads every pass

    if arguments.is_artefact(options.model):
        raise UsageError(f"{options.model} is compiled already; stepwell-run runs it, stepwell-inspect shows it")
    targets = options.target.split(",")
    if repeated := [name for name in targets if targets.count(name) > 1]:
        raise UsageError(f"--target: {repeated[0]} is named twice")
    known = (*route.names(targets[0]), _OBJECT)
    for phase in filter(None, (options.compile_to, options.compile_from)):
        if phase not in known:
            raise UsageError(f"there is no phase '{phase}'; the phases are {', '.join(known)}")
    given = Given.read(options)
    sets = given.sets
    stop = None if options.compile_to == _OBJECT else options.compile_to
    if (stop or options.dump_phases) and len(sets) * len(targets) > 1:
        raise UsageError("--compile-to and --dump-phases take one target and one --shape for each input")
    substitutes = dict(map(_substitute, options.substitute))
    outputs = Outputs(options.model, *substitutes.values(), *arguments.files_of(options.input))
    name = options.output or ("-" if stop else default_name(options.model, ".stw"))
    output = outputs.claim("-o", name, IR if stop else ARTEFACT)
    if options.json and output.is_stdout:
        raise UsageError("--json and -o - both write to the standard output")
    report = None
    if options.opt_report not in (None, "text", "json"):
        report = outputs.claim("--opt-report", options.opt_report, REPORT)
    remarks = None
    if options.remarks_output_file is not None:
        remarks = outputs.claim("--remarks-output-file", options.remarks_output_file, REMARKS)
    dump = None
    if options.dump_phases is not None:
        dump = PhaseDump(outputs, Path(options.dump_phases), known[:-1])
        dump.begin(1)
    with outputs.messages():
        return _compile_for(options, targets, given, stop, output, report, dump, remarks)


def _compile_for(
    options: argparse.Namespace,
    targets: Sequence[str],
    given: Given,
    stop: str | None,
    output: OutputFile,
    report: OutputFile | None,
    dump: PhaseDump | None,
    remarks: OutputFile | None,
) -> int:
    """Compiles, writes the requested files and reports what was written."""
    with progress(options, f"compiling {options.model}", total=len(targets) if len(targets) > 1 else None) as steps:
        watcher = PhaseWatcher(options.compile_from, stop, dump, options.kernel, len(given.dims) > 0)
        start = time.perf_counter()
        if stop is not None:
            output.write_text(_texts(options, targets[0], given, watcher))
            return 0
        executables = []
        for target in targets:
            steps.next(f"compiling {options.model} for {target}")
            executables.append(_compile(options, target, given.dims, given, watcher))
    if options.keep_model and executables[0].source is None:
        raise UsageError(f"--keep-model: {options.model} cannot be stored: it is in several files")
    keeps_model = options.keep_model or _must_keep_model(executables)
    models = [executable.stored(keep_model=keeps_model) for executable in executables]
    for target, executable, model in zip(targets, executables, models, strict=True):
        if not (model.programs or model.plan or model.source):
            raise InputError(_no_code(target, executable))
    size = _write(output, _merged(models), options.cubins)
    made = f"{output.path}: {size / 1e6:.1f} MB, made in {duration(time.perf_counter() - start)}"
    if remarks is not None:
        remarks.write_text(to_yaml(remark for executable in executables for remark in executable.report().remarks))
    if options.json:
        fallbacks = [found.record() for found in executables[0].fallbacks]
        record = {"schema": 1, "output": str(output.path), "bytes": size, "fallbacks": fallbacks}
        print(json.dumps({**record, "keeps_model": keeps_model}))
        return 0
    if options.opt_report == "json":  # nothing else on stdout
        print(json.dumps(executables[0].report().record(), indent=1))
        print(made, file=sys.stderr)
        return 0
    _summarise([program for executable in executables for program in executable.programs])
    _list_fallbacks(executables[0])
    if report is not None:
        report.write_text(json.dumps(executables[0].report().record(), indent=1))
    elif options.opt_report is not None:
        print(executables[0].report())
    print(made)
    return 0


def _must_keep_model(executables: Sequence[Executable]) -> bool:
    """Returns whether subgraphs of a hybrid model have no code yet and are compiled after loading.

    Raises:
        InputError: some have none, and the model cannot be stored.
    """
    plans = [executable for executable in executables if executable.stored().plan is not None]
    reasons = dict.fromkeys(reason for executable in plans for reason in executable.uncompiled)
    if not reasons:
        return False
    text = "; ".join(reasons)
    if executables[0].source is None:
        raise InputError(f"parts of the model have no code, and it cannot be stored, as it is in several files: {text}")
    warn(f"the model is stored too, to compile the rest of it when it is called: {text}")
    return True


def _no_code(target: str, executable: Executable) -> str:
    """Returns why an artefact would hold nothing that runs, and what to do."""
    why = f"--dims: no program for {target} serves these sizes: {executable.unranged}; " if executable.unranged else ""
    return f"{why}name the sizes one by one (--dims n=16/64, or --shape), or store the model (--keep-model)"


def _write(output: OutputFile, model: reader.Artefact, cubins: bool) -> int:
    """Writes an artefact; returns its size in bytes."""
    with output.writing() as path:
        writer.write(path, model, cubins=cubins)
        return path.stat().st_size


def _merged(models: Sequence[reader.Artefact]) -> reader.Artefact:
    """Merges artefacts into one with the code for all targets."""
    first, *others = models
    programs, plan = first.programs, first.plan
    for other in others:
        programs += other.programs
        plan = plan.merged(other.plan) if plan and other.plan else plan or other.plan
    return replace(first, programs=programs, plan=plan)


def _list_fallbacks(executable: Executable) -> None:
    for found in executable.fallbacks:
        print(f"on the host: {found}")


def _texts(options: argparse.Namespace, target: str, given: Given, watcher: PhaseWatcher) -> str:
    """Returns the IR at the phase where the watcher stops: a module for each range, as --split-input-file reads them.

    Raises:
        UsageError: the model is past the phase.
        InputError: no program can serve a range.
    """
    from ..driver.api import interface_of
    from ..driver.setup import Setup
    from ..driver.sources.reading import read_source

    _, inputs, _ = interface_of(read_source(options.model))
    ranges = one_by_one(given.dims, inputs, Setup(target).divides_ranges) if given.dims else [given.dims]
    texts = []
    for dims in ranges:
        try:
            executable = _compile(options, target, dims, given, watcher)
        except StoppedAtPhase as stopped:
            texts.append(stopped.text)
            continue
        if executable.unranged:
            raise InputError(_no_code(target, executable))
        raise UsageError(f"--compile-to={watcher.stop}: the model is past that phase already")
    return "\n// -----\n\n".join(texts)


def _compile(
    options: argparse.Namespace, target: str, dims: Mapping[str, Any], given: Given, watcher: PhaseWatcher
) -> Executable:
    from .. import compile

    # A cache hit runs no phases, and an instrumented compile does not use the cache.
    instrumented = any((options.compile_to, options.compile_from, options.dump_phases))
    chosen = model_options.compile_options(
        options,
        dims=dims,
        cache="require" if options.require_cached else not (instrumented or options.no_cache),
        reached=watcher if instrumented else None,
        substitutes=dict(map(_substitute, options.substitute)),
    )
    executable = compile(options.model, target=target, options=chosen)
    given.check_names(executable.inputs)
    sets = given.every_set()
    is_ranged = len(dims) > 0 or any(program.bounds for program in executable.programs)
    for shapes in [] if is_ranged and sets == [{}] else sets:
        tensors = [info for info in executable.inputs if info.kind == "tensor"]
        arguments.check_shapes(shapes, tensors, "--shape")
        executable.prepare(shapes, given.arrays)
    return executable


def _substitute(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=@")
    if not name or not path:
        raise UsageError(f"--substitute {text}: write it as KERNEL=@file.mlir or NODE=@file.mlir")
    return name, path


def _summarise(programs: Sequence[Program]) -> None:
    """Prints a line for each program."""
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
