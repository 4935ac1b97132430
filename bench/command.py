"""`stepwell-bench` and `python -m stepwell.bench`: the command line of the harness."""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ..lm.divergence import measure_divergence
from ..runtime.devices.peaks import Peaks
from ..runtime.profile.text import tables_of
from ..runtime.program import SHORT_NAME
from ..support.packages import require_package
from ..support.wording import duration
from ..tools import arguments, model_options, running, text_options
from ..tools.console import ProgressBar, line_width, print_table, progress
from ..tools.flags import UsageError
from ..tools.outputs import FIGURES, PICTURE, OutputFile, Outputs
from ..tuning.database import Database
from . import (
    compare,
    figures,
    kernels,
    language,
    measure,
    misdescribed,
    models,
    report,
    searchers,
    turns,
)
from .budget_commands import measure_budgets
from .figure_output import check_cores, output_file, print_figures, print_tables, write_figures
from .machine import PINNING, cores, describe
from .peers import HERE, KERNEL_PEERS, MODEL_PEERS, MODULE_PEERS, MODULE_SYSTEMS, SYSTEMS, System
from .range_commands import measure_new_sizes, measure_ranges
from .record import Results, Row
from .training_commands import add_training_arguments, measure_training

_Limits = Mapping[int, Peaks]

NAME = "stepwell-bench"
_PICTURES = (".png", ".svg", ".pdf")
_FOR_SESSIONS = ("light-squeezenet", "light-resnet50", "minilm-1x128", "silero-vad")
_WITHOUT_COMPILES = frozenset({"searchers", "machine", "show", "compare", "plot"})
"""Commands that compile nothing."""
_DESCRIPTION = f"""Measures models and kernels here and in other systems, side by side on this machine.

Method: {PINNING}. Systems take turns, round by round; the figure is the median of all calls. "How many times faster
Stepwell is" is the time of the other system divided by that of Stepwell: above 1, Stepwell is faster."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, options.run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    made = _command(commands, "models", _models, "whole models")
    made.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="beginnings of names in the list, or an ONNX file (default: the list)",
    )
    made.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of a file's dynamic input"
    )
    _measuring(made, MODEL_PEERS, rounds=5, seconds=0.2)
    made = _command(commands, "torch", _torch, "modules of torch: eagerly, by inductor, and by Stepwell in both ways")
    made.add_argument(
        "modules", nargs="*", metavar="MODULE", help="beginnings of names in the list (default: all of the list)"
    )
    _measuring(made, MODULE_PEERS, rounds=5, seconds=0.2, systems=MODULE_SYSTEMS)
    made.add_argument("--resume", action="store_true", help="like --add, without modules that the file has already")
    made = _command(commands, "kernels", _kernels, "single kernels over a list of real shapes")
    made.add_argument(
        "kernels", nargs="*", metavar="KERNEL", help="beginnings of names, such as 'conv 3x3' (default: all)"
    )
    _measuring(made, KERNEL_PEERS, rounds=3, seconds=0.1)
    made = _command(commands, "sessions", _sessions, "throughput of two concurrent sessions of a model, against one")
    made.add_argument(
        "models", nargs="*", metavar="MODEL", help="a name of the list, or an ONNX file (default: a selection)"
    )
    made.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of a file's dynamic input"
    )
    _measuring(made, ("onnxruntime", "openvino"), rounds=5, seconds=0.5)
    made = _command(commands, "growth", _growth, "growth of compile time with the layers of a transformer")
    made.add_argument("--layers", default="12,24,48,96", help="numbers of layers (default: %(default)s)")
    _systems_and_files(made, ("onnxruntime", "openvino"))
    made = _command(commands, "ranges", measure_ranges, "one compile for ranges of sizes, against one for each size")
    made.add_argument(
        "--dims", action="append", default=[], metavar="NAME=1:512", help="sizes of a dimension of the given model"
    )
    made.add_argument(
        "--rounds", type=arguments.positive, default=5, help="turns of each program (default: %(default)s)"
    )
    _at_sizes(made, "six models, eight sizes each", "sizes to measure (default: the bounds and some in between)")
    made = _command(commands, "new-sizes", measure_new_sizes, "first calls at new sizes, without and with ranges")
    _at_sizes(made, "two models", "sizes of the calls of the given model, in their order")
    made = _command(commands, "lm", _language, "prompts and steps of a language model")
    made.add_argument("model", nargs="?", metavar="MODEL.gguf", help="a file (default: 0.3 billion random weights)")
    made.add_argument("--threads", type=arguments.positive, default=1, help="threads of a call (default: %(default)s)")
    made.add_argument(
        "--seconds", type=arguments.amount, default=2.0, help="time to measure each figure (default: %(default)s)"
    )
    for name, default, about in (
        ("prompts", "64,512", "tokens of a prompt"),
        ("depths", "16,1024", "tokens before the steps of one text"),
        ("texts", "1,2,4,8", "texts that grow together, at the first depth"),
    ):
        made.add_argument(f"--{name}", default=default, metavar="N,N", help=f"{about} (default: %(default)s)")
    text_options.add_cache(made)
    add_training_arguments(_command(commands, "train", measure_training, "training steps of models of PyTorch"))
    made = _command(commands, "divergence", _divergence, "the distance of a language model from its original")
    made.add_argument("model", type=Path, metavar="MODEL", help="a .gguf file, or a Hugging Face folder")
    made.add_argument("reference", type=Path, metavar="REFERENCE", help="the original, with the same tokens")
    made.add_argument("text", type=Path, metavar="TEXT", help="a text file to compare them on")
    made.add_argument("--threads", type=arguments.positive, help="threads of a call (default: one for each core)")
    text_options.add_cache(made)
    made = _command(commands, "profile", _profile, "the time of each kernel of a running model")
    made.add_argument("model", metavar="MODEL", help="a name of the list, or an ONNX file")
    made.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of a file's dynamic input"
    )
    made.add_argument("--threads", type=arguments.positive, default=1, help="threads of a call (default: %(default)s)")
    made.add_argument(
        "--calls", type=arguments.positive, default=20, help="number of calls for the medians (default: %(default)s)"
    )
    made.add_argument(
        "--top", type=arguments.positive, default=40, help="number of kernels and nodes to list (default: %(default)s)"
    )
    made = _command(
        commands, "searchers", _searchers, "trials that searchers need, replayed from stepwell-tune's trials"
    )
    made.add_argument(
        "database", metavar="DATABASE", help="a database with many trials: stepwell-tune --searcher random"
    )
    made = _command(
        commands, "misdescribed", _misdescribed, "speed that tuning recovers if the machine is described wrongly"
    )
    made.add_argument("models", nargs="+", metavar="MODEL", help="names of the list, or ONNX files")
    made.add_argument("--budget", default="2m", help="time of the search for each model (default: %(default)s)")
    made.add_argument("--threads", type=arguments.positive, default=1, help="threads of a call (default: %(default)s)")
    made.add_argument(
        "--rounds", type=arguments.positive, default=40, help="turns of each program (default: %(default)s)"
    )
    made = _command(
        commands, "budget", measure_budgets, "real models quantised within budgets of error, and planted faults"
    )
    made.add_argument("models", nargs="*", metavar="MODEL", help="some of the models, without faults (default: all)")
    made.add_argument(
        "--samples", type=arguments.positive, default=2, help="calls to calibrate and measure on (default: %(default)s)"
    )
    _command(commands, "machine", _machine, "figures of this machine, for which code for the target cpu is made")
    made = _command(commands, "show", _show, "print a file of results as tables")
    made.add_argument("file", type=Path)
    made = _command(
        commands, "compare", _compare, "compare two files of results; exit code 1 if something became slower"
    )
    made.add_argument("old", type=Path)
    made.add_argument("new", type=Path)
    made.add_argument(
        "--tolerance",
        type=arguments.amount,
        default=0.05,
        help="relative difference that counts as noise (default: %(default)s)",
    )
    made = _command(commands, "plot", _plot, "draw a file of results as a picture")
    made.add_argument("file", type=Path)
    made.add_argument("-o", "--output", type=Path, help="a .png, .svg or .pdf (default: a .png beside the file)")
    for name in commands.choices.keys() - _WITHOUT_COMPILES:
        arguments.add_plugins(commands.choices[name])
    return parser


def _command(commands, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    model_options.add_output_options(made)
    made.set_defaults(run=run)
    return made


def _at_sizes(made: argparse.ArgumentParser, default: str, about: str) -> None:
    made.add_argument(
        "model", nargs="?", metavar="MODEL", help=f"a name of the list, or an ONNX file (default: {default})"
    )
    made.add_argument("--at", action="append", default=[], metavar="NAME=7,NAME=16", help=about)
    made.add_argument("--threads", type=arguments.positive, default=1, help="threads of a call (default: %(default)s)")
    made.add_argument("--seconds", type=arguments.amount, default=0.2, help="duration of a turn (default: %(default)s)")
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the figures there, as JSON")
    made.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write them to FOLDER/<machine>/<command>-<model>.json"
    )


def _measuring(
    made: argparse.ArgumentParser,
    peers: Sequence[str],
    rounds: int,
    seconds: float,
    systems: Mapping[str, System] = SYSTEMS,
) -> None:
    made.add_argument("--threads", default="1,2", help="numbers of threads of a call (default: %(default)s)")
    made.add_argument(
        "--rounds", type=arguments.positive, default=rounds, help="turns per system (default: %(default)s)"
    )
    made.add_argument(
        "--seconds", type=arguments.amount, default=seconds, help="duration of a turn (default: %(default)s)"
    )
    _systems_and_files(made, peers, systems)


def _systems_and_files(
    made: argparse.ArgumentParser, peers: Sequence[str], systems: Mapping[str, System] = SYSTEMS
) -> None:
    made.add_argument(
        "--peers", default=",".join(peers), help=f"other systems: {', '.join(systems)} (default: %(default)s)"
    )
    made.add_argument(
        "--limit", type=arguments.amount, default=120, help="time limit of a start in seconds (default: %(default)s)"
    )
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the figures there, as JSON")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="write them to FOLDER/<machine>/<command>.json")
    made.add_argument("--add", action="store_true", help="add to the file's figures of the same machine and versions")
    made.set_defaults(resume=False)


def _models(options: argparse.Namespace) -> int:
    chosen = models.chosen(options.models, arguments.parse_shape_sets(options.shape))

    def rows(plan: measure.BenchPlan, limits: _Limits, steps: ProgressBar) -> Iterator[Row]:
        for model in chosen:
            yield from measure.measure_model(model, plan, limits, steps)

    return _measure(options, "models", rows)


def _torch(options: argparse.Namespace) -> int:
    require_package("torch", "the benchmark of modules", "torch")
    from .torch_models.catalog import MODELS

    found = {text: [name for name in MODELS if name.startswith(text)] for text in options.modules}
    if unknown := [text for text, names in found.items() if not names]:
        raise UsageError(f"no module's name starts with '{unknown[0]}'; these are: {', '.join(MODELS)}")
    chosen = list(dict.fromkeys(name for names in found.values() for name in names)) or list(MODELS)

    def rows(plan: measure.BenchPlan, limits: _Limits, steps: ProgressBar) -> Iterator[Row]:
        for name in chosen:
            if not plan.is_done(name):
                yield from measure.measure_module(name, plan, steps)

    return _measure(options, "torch", rows, MODULE_SYSTEMS)


def _kernels(options: argparse.Namespace) -> int:
    chosen = kernels.chosen(options.kernels)
    if not chosen:
        raise UsageError(
            f"no kernel's name starts with '{options.kernels[0]}'; these are: {', '.join(kernels.table())}"
        )
    return _measure(
        options, "kernels", lambda plan, limits, steps: measure.measure_kernels(chosen, plan, limits, steps)
    )


def _sessions(options: argparse.Namespace) -> int:
    chosen = models.chosen(options.models or _FOR_SESSIONS, arguments.parse_shape_sets(options.shape))

    def rows(plan: measure.BenchPlan, limits: _Limits, steps: ProgressBar) -> Iterator[Row]:
        for model in chosen:
            yield from measure.measure_sessions(model, plan, steps)

    return _measure(options, "sessions", rows)


def _growth(options: argparse.Namespace) -> int:
    layers = _numbers(options.layers, "--layers")
    options.threads, options.rounds, options.seconds = str(len(cores())), 1, 0.0
    return _measure(options, "growth", lambda plan, limits, steps: measure.measure_growth(layers, plan, steps))


def _searchers(options: argparse.Namespace) -> int:
    replays = searchers.replay(Database(options.database, must_exist=True).trials())
    if not replays:
        raise UsageError(f"{options.database}: no kernel has {searchers.FEWEST} trials")
    found = searchers.medians(replays)
    if options.json:
        kernels = list(map(asdict, replays))
        print(json.dumps({"schema": 1, "machine": asdict(describe()), "kernels": kernels, "medians": found}))
        return 0
    rows = [
        (item.kernel[:SHORT_NAME], str(item.schedules), f"{item.best:.3f}", *(f"{n:.1f}" for n in item.trials.values()))
        for item in replays
    ]
    rows.append(("median", "", "", *(f"{count:.1f}" for count in found.values())))
    columns = ("kernel", "schedules", "best gain", *searchers.SEARCHERS)
    print_table(columns, rows, numbers=columns[1:])
    return 0


def _misdescribed(options: argparse.Namespace) -> int:
    rows = []
    for model in models.chosen(options.models):
        with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder:
            path = model.file(Path(folder))
            given = (model.name, path, model.inputs(path), Path(folder), options.budget, options.threads)
            rows.append(misdescribed.measure_misdescribed(*given, options.rounds))
    if options.json:
        print(json.dumps({"schema": 1, "machine": asdict(describe()), "rows": list(map(asdict, rows))}))
        return 0
    cells = [
        (
            row.model,
            *(f"{time:.3f}" for time in row.milliseconds.values()),
            *(f"{gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})" for gain in (row.wrong, row.tuned)),
        )
        for row in rows
    ]
    columns = ("model", "right, ms", "wrong, ms", "tuned, ms", "speed, wrong", "speed, tuned")
    print_table(columns, cells, numbers=columns[1:])
    return 0


def _profile(options: argparse.Namespace) -> int:
    (model,) = models.chosen([options.model], arguments.parse_shape_sets(options.shape)[:1])
    check_cores([options.threads])
    limit = measure.find_peaks([options.threads])[options.threads]
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder, turns.pinned(options.threads) as worker:
        path = model.file(Path(folder))
        made = (path, model.inputs(path), options.threads, options.calls, limit)
        record = worker.ask("run", "stepwell.bench.profile", "profile", *made)
    if options.json:
        print(json.dumps(record))
    else:
        print(tables_of(record, options.top, line_width()))
    return 0


def _language(options: argparse.Namespace) -> int:
    check_cores([options.threads])
    names = ("prompts", "depths", "texts")
    prompts, depths, texts = (_numbers(getattr(options, name), f"--{name}") for name in names)
    path, machine = options.model or language.random_model(), describe()
    limits = measure.find_peaks([options.threads])[options.threads]
    sizes = {"limits": limits, "cache": options.cache}
    found = language.measure(Path(path), options.threads, options.seconds, prompts, depths, texts, **sizes)
    record = {"schema": 1, "threads": options.threads, "cache": options.cache, "machine": asdict(machine)}
    record["rows"] = list(map(asdict, found))
    print_figures(options, json.dumps(record, indent=1), [report.language_table(Path(path).name, found)], str(machine))
    return 0


def _divergence(options: argparse.Namespace) -> int:
    try:
        text = options.text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{options.text}: {error}") from None
    found = measure_divergence(options.model, options.reference, text, options.threads, cache=options.cache)
    record = json.dumps({"schema": 1, **asdict(found)})
    table = report.divergence_table(options.model.name, options.reference.name, found)
    print_figures(options, record + "\n", [table], str(describe()))
    return 0


def _machine(options: argparse.Namespace) -> int:
    made = figures.compare(cores())
    print_figures(options, made.text(), [made.table()], str(describe()))
    if not options.json:
        print(f"\n{made.outcome}")
    return 0


def _show(options: argparse.Namespace) -> int:
    results = Results.read(options.file)
    versions = ", ".join(map(" ".join, results.machine.versions.items()))
    print_figures(options, results.text(), report.tables(results), f"{results.machine}\n{results.date}: {versions}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    comparison = compare.compare(Results.read(options.old), Results.read(options.new))
    slower = [change for change in comparison.changes if change.is_regression(options.tolerance)]
    if options.json:
        changes = [{**asdict(change), "slower": change in slower} for change in comparison.changes]
        print(json.dumps({"schema": 1, "changes": changes, "slower": len(slower), "gone": list(comparison.gone)}))
        return 1 if slower or comparison.gone else 0
    print_tables([report.change_table(comparison, options.tolerance)])
    print(f"\n{len(slower)} of {len(comparison.changes)} became slower by more than {100 * options.tolerance:.0f} %")
    if comparison.gone:
        print(f"without a figure now: {', '.join(comparison.gone)}")
    return 1 if slower or comparison.gone else 0


def _plot(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plot needs matplotlib: pip install matplotlib")
    from . import plot

    output = Outputs(options.file).claim("-o", options.output or options.file.with_suffix(".png"), PICTURE)
    if output.path.suffix not in _PICTURES:
        raise UsageError(f"-o {output.path}: name a file with one of the endings {', '.join(_PICTURES)}")
    with output.writing() as path:
        plot.draw(Results.read(options.file), path)
    print(json.dumps({"schema": 1, "file": str(output.path)}) if options.json else output.path)
    return 0


def _measure(
    options: argparse.Namespace,
    what: str,
    rows: Callable[..., Iterable[Row]],
    known: Mapping[str, System] = SYSTEMS,
) -> int:
    systems, missing = _systems(options.peers, known)
    threads = _numbers(options.threads, "--threads")
    check_cores(threads)
    machine = describe()
    output = output_file(options, machine, f"{what}.json", FIGURES)
    is_added = options.add or options.resume
    older = Results.read(output.path) if is_added and output is not None and output.path.is_file() else None
    if older is not None:
        older.require_same(what, machine)
    done = older.rows if older is not None and options.resume else ()
    # pip compiles installed packages, such as the other systems; a source tree would be compiled at its first start.
    compileall.compile_dir(Path(__file__).parents[1], quiet=2)
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder, progress(options, "machine") as steps:
        kept = frozenset((row.case, row.threads, row.system) for row in done)
        plan = measure.BenchPlan(systems, threads, options.rounds, options.seconds, options.limit, Path(folder), kept)
        limits = measure.find_peaks(threads) if what in ("models", "kernels") else {}
        results = Results(what, machine, limits, [], missing)
        try:
            for row in rows(plan, limits, steps):
                results.rows.append(row)
                _report_row(row, options.quiet)
                # A long list that ends early, by the machine or the user, keeps what it has.
                if output is not None and not output.is_stdout:
                    _write(output, results, older)
        except KeyboardInterrupt:
            print(f"{NAME}: interrupted: these are the figures so far", file=sys.stderr)
    shown = results.merged_into(older) if older is not None and options.resume else results
    print_figures(options, results.text(), report.tables(shown), f"{machine}\n{PINNING}")
    if output is not None:
        _write(output, results, older)
    return 0


def _write(output: OutputFile, results: Results, older: Results | None) -> None:
    write_figures(output, (results.merged_into(older) if older is not None else results).text())


def _report_row(row: Row, is_quiet: bool) -> None:
    """Reports a measured row on stderr, unless a progress bar is shown."""
    if sys.stderr.isatty() or is_quiet:
        return
    seconds = row.median_seconds or row.cold_seconds
    result = row.reason or (duration(seconds) if seconds is not None else "done")
    print(f"{row.case}, {row.threads} threads, {row.system}: {result}", file=sys.stderr, flush=True)


def _systems(text: str, known: Mapping[str, System]) -> tuple[list[str], dict[str, str]]:
    """Returns the installed systems, Stepwell first, and what to do about those that are missing."""
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--peers {unknown[0]}: there is no such system; there are {', '.join(known)}")
    missing = {
        name: f"not installed: pip install {shlex.join(known[name].missing)}" for name in names if known[name].missing
    }
    return [HERE, *(name for name in names if name not in missing and name != HERE)], missing


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [arguments.positive(part) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{option}: {error}") from None
