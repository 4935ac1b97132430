"""`stepwell-tune`: searches for faster schedules of a model's kernels, and explains what was found."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.options import Options
from ..driver.setup import Setup
from ..driver.sources.reading import read_source
from ..passes.infra.tuning import SUFFIX
from ..runtime.cache.cache import Cache
from ..runtime.program import SHORT_NAME
from ..support.wording import quantity
from ..tuning import explanations
from ..tuning.choices import best_trials, tuning_of
from ..tuning.database import Database, default_path
from ..tuning.distributed.job import TuningJob
from ..tuning.distributed.search import search_on_cluster
from ..tuning.model import tunable_model
from ..tuning.options import SEARCHERS, TuningOptions
from ..tuning.profiles import read_profile
from ..tuning.refit import keep_figures, refit, refit_kernels
from ..tuning.report import page, summary
from ..tuning.search import ModelSearch
from ..tuning.session import SearchResult
from . import arguments, model_options, running
from .console import print_table, shows_bars
from .flags import UsageError
from .model_options import Given
from .outputs import TUNING, TUNING_REPORT, OutputFile, Outputs, default_name
from .tuning_display import display

NAME = "stepwell-tune"
_SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
_DESCRIPTION = """Searches for schedules that make a model's kernels faster, and keeps every measurement.

    MODEL [--budget 10m] [-o FILE]  search, and write what is faster: stepwell-compile MODEL --tuning FILE uses it
    list                            show the kernels with trials, and their gains
    show KERNEL                     show the trials of a kernel; by its name, its beginning, or a node of the model
    why KERNEL                      explain why a kernel has its schedule
    export FILE                     write the best schedules of all kernels, for --tuning
    merge DATABASE...               copy the trials of other databases
    refit MODEL... [--keep]         fit the cost function to the trials of models, for better default schedules
    prune                           delete trials of other versions of the compiler

Ctrl-C ends a search early; every trial is kept, and the next search continues from there."""
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_NO_ACTION = ("-h", "--help", "--version")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given and given[0] not in (*_ACTIONS, *_NO_ACTION):
        given.insert(0, "search")
    options = _parser().parse_args(given)
    return running.run_with(NAME, _ACTIONS[options.action], options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="MODEL, or one of the above")
    made = {action: actions.add_parser(action) for action in _ACTIONS}
    for action, each in made.items():
        if action == "search":
            _add_search(each)
        elif action in ("show", "why"):
            each.add_argument("kernel", metavar="KERNEL")
        elif action == "export":
            each.add_argument("output", metavar=f"FILE{SUFFIX}")
        elif action == "refit":
            each.add_argument("models", nargs="+", metavar="MODEL", help="models that were tuned with the same options")
            each.add_argument("--keep", action="store_true", help="use the figures for all compiles on this machine")
            model_options.add_model_options(each)
        elif action == "merge":
            each.add_argument("others", nargs="+", metavar="DATABASE")
        each.add_argument("--database", metavar="FILE", help="the database of trials (default: in the cache's folder)")
        model_options.add_output_options(each)
    return parser


def _add_search(parser: argparse.ArgumentParser) -> None:
    known = TuningOptions()
    parser.add_argument("model", metavar="MODEL", help=arguments.MODEL)
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the tuned schedules (default: MODEL{SUFFIX})")
    group = parser.add_argument_group("the search")
    group.add_argument("--budget", type=_seconds, metavar="TIME", help="time, as 90s, 10m or 1h (default: 10m)")
    group.add_argument("--trials", type=arguments.positive, help="number of trials (default: no limit)")
    group.add_argument("--threads", type=arguments.positive, help="threads of a call (default: one for each core)")
    group.add_argument("--searcher", choices=SEARCHERS, default=known.searcher, help="(default: %(default)s)")
    group.add_argument("--seed", type=arguments.natural, default=known.seed, help="of random numbers (default: 0)")
    group.add_argument(
        "--graph",
        type=float,
        default=known.graph,
        metavar="SHARE",
        help="part of the budget for choices above single kernels, 0 for none (default: %(default)s)",
    )
    group.add_argument(
        "--error",
        type=float,
        metavar="SHARE",
        help="multiply in bf16 where results then differ by at most this part of the greatest (default: nowhere)",
    )
    group.add_argument(
        "--turns", type=arguments.positive, default=known.turns, help="of a trial (default: %(default)s)"
    )
    group.add_argument(
        "--profile", metavar="FILE.json", help="profile of stepwell-run: time is spent where real calls spend it"
    )
    group.add_argument("--report", metavar="FILE.html", help="write the course of the search there")
    group.add_argument(
        "--workers", metavar="ADDRESS", help="measure on the workers of the Dask scheduler there, as tcp://host:8786"
    )
    model_options.add_model_options(parser)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smh]?)", text)
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a time: write it as 90s, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def _database(options: argparse.Namespace, *, must_exist: bool = True) -> Database:
    return Database(options.database or default_path(), must_exist=must_exist)


def _search(options: argparse.Namespace) -> int:
    written = Outputs(options.model, options.profile, *arguments.files_of(options.input))
    output = options.output or default_name(options.model, SUFFIX)
    table_file = written.claim("--output", output, TUNING)
    report_file = None
    if options.report is not None:
        if Path(options.report).suffix != ".html":
            raise UsageError(f"--report {options.report}: name a file with the ending .html")
        report_file = written.claim("--report", options.report, TUNING_REPORT)
    profile = None if options.profile is None else read_profile(Path(options.profile))
    seconds = options.budget or (None if options.trials else TuningOptions().seconds)
    chosen = TuningOptions(
        seconds,
        options.trials,
        options.threads,
        options.searcher,
        seed=options.seed,
        turns=options.turns,
        graph=options.graph,
        error=options.error,
    )
    random = np.random.default_rng(0)
    source = read_source(options.model)
    infos, _ = source.interface()
    inputs = Given.read(options, random).all_inputs(infos, random)
    compiled = Options(winograd=not options.no_winograd, codegen_threads=1)
    shapes = {name: array.shape for name, array in inputs.items()}
    database = _database(options, must_exist=False)
    arrays = [inputs[info.name] for info in infos]
    with written.messages(), display(shows_bars(options), chosen) as listener:
        if options.workers is not None:
            graph = None
            job = TuningJob(source, options.target, compiled, shapes, arrays, options.threads, chosen.turns)
            results = search_on_cluster(options.workers, job, database, chosen, listener, profile)
        else:
            search = ModelSearch(source, shapes, arrays, database, chosen, listener, profile)
            with tempfile.TemporaryDirectory(prefix="stepwell-tune-") as folder:
                setup = replace(Setup.of(options.target, compiled), cache=Cache(folder))
                graph, kernels = search.run(setup)
            results = [] if kernels is None else [kernels]
        found = results if graph is None else [graph, *results]
        winners = [trial for result in found for trial in result.winners.values()]
        table_file.write_text(tuning_of(winners, database.kernels(), options.target).text())
        if report_file is not None:
            report_file.write_text(page(source.name, *found))
        _print_results(options, graph, results, output)
    return 0


def _print_results(
    options: argparse.Namespace, graph: SearchResult | None, results: Sequence[SearchResult], output: str
) -> None:
    if options.json:
        records = [_record(options, result, output) for result in results]
        decided = None if graph is None else _record(options, graph, output)
        is_single = options.workers is None and len(records) > 0
        searched = records[0] if is_single else {"schema": _SCHEMA, "searches": records}
        running.print_json({**searched, "graph": decided})
        return
    if graph is not None:
        print(f"graph: {summary(graph)}")
        for trial in graph.winners.values():
            print("\n".join(f"  {site}: {value}" for site, value in trial.schedule.items()))
    for result in results:
        if len(results) > 1:
            print(f"machine {result.conditions.machine[:SHORT_NAME]}:")
        _print_result(result)
    print(f"{output}: stepwell-compile {options.model} --tuning {output}")


def _print_result(result: SearchResult) -> None:
    rows = [
        (
            course.kernel.name[:SHORT_NAME],
            course.kernel.info.kind,
            ", ".join(course.kernel.info.ops[:2]),
            f"{course.share:.1%}",
            str(len(course.trials)),
            "default" if (best := result.winners.get(course.kernel.name)) is None else f"{best.gain:.3f}",
        )
        for course in result.courses
    ]
    print_table(("kernel", "class", "nodes", "share", "trials", "gain"), rows, numbers=("share", "trials", "gain"))
    if result.untuned:
        print(f"{quantity(result.untuned, 'kernel')} with less than 0.2 % of the time: not tuned")
    print(summary(result))


def _record(options: argparse.Namespace, result: SearchResult, output: str) -> dict[str, Any]:
    whole = result.whole
    return {
        "schema": _SCHEMA,
        "model": options.model,
        "output": str(output),
        "threads": result.conditions.threads,
        "machine": result.conditions.machine,
        "compiler": result.conditions.compiler,
        "seconds": result.seconds,
        "trials": result.trials,
        "interrupted": result.is_interrupted,
        "gain": 1.0 if whole is None else whole.gain.value,
        "interval": [1.0, 1.0] if whole is None else [whole.gain.low, whole.gain.high],
        "kernels": [
            {
                "name": course.kernel.name,
                "class": course.kernel.info.kind,
                "nodes": list(course.kernel.info.ops),
                "share": course.share,
                "trials": len(course.trials),
                "gain": 1.0 if (best := result.winners.get(course.kernel.name)) is None else best.gain,
                "schedule": None if best is None else dict(best.schedule),
            }
            for course in result.courses
        ],
    }


def _list(options: argparse.Namespace) -> int:
    records = explanations.listed(_database(options))
    if options.json:
        running.print_json({"schema": _SCHEMA, "kernels": records})
        return 0
    rows = [
        (
            *(item["kernel"][:SHORT_NAME], item["class"], ", ".join(item["nodes"][:2]), item["machine"][:8]),
            *(str(item["threads"]), str(item["trials"]), str(item["failed"]), f"{item['gain']:.3f}"),
        )
        for item in records
    ]
    columns = ("kernel", "class", "nodes", "machine", "threads", "trials", "failed", "gain")
    print_table(columns, rows, numbers=columns[4:])
    return 0


def _show(options: argparse.Namespace) -> int:
    database = _database(options)
    kernel = explanations.find_kernel(database, options.kernel)
    records = explanations.shown(database, kernel)
    if options.json:
        running.print_json({"schema": _SCHEMA, "kernel": kernel.name, "trials": records})
        return 0
    rows = [
        (
            "" if item["gain"] is None else f"{item['gain']:.3f}",
            "" if item["gain"] is None else f"{item['low']:.3f} to {item['high']:.3f}",
            "" if item["predicted"] is None else f"{item['predicted']:.3f}",
            str(item["turns"]),
            item["searcher"],
            item["reason"] or json.dumps(item["schedule"]),
        )
        for item in records
    ]
    columns = ("gain", "95 %", "predicted", "turns", "searcher", "schedule")
    print_table(columns, rows, numbers=("gain", "predicted", "turns"))
    return 0


def _why(options: argparse.Namespace) -> int:
    database = _database(options)
    record = explanations.why(database, explanations.find_kernel(database, options.kernel))
    if options.json:
        running.print_json({"schema": _SCHEMA, **record})
        return 0
    print(f"{record['kernel']} ({', '.join(record['nodes'][:3])}), {record['class']}")
    print(record["verdict"])
    print("\n".join(record["schedule"]))
    print(f"{record['slower']} trials are certainly slower, {record['equal']} within 2 % of the default")
    right, known = record["predicted right"]
    if known:
        print(f"the cost function distinguished faster from slower in {right} of {quantity(known, 'trial')}")
    for reason, count in record["failures"].items():
        print(f"{quantity(count, 'trial')} failed: {reason}")
    return 0


def _export(options: argparse.Namespace) -> int:
    file: OutputFile = Outputs(options.database).claim("FILE", options.output, TUNING)
    database = _database(options)
    table = tuning_of(best_trials(database.trials()), database.kernels())
    file.write_text(table.text())
    return _say(
        options, f"{options.output}: {quantity(len(table.kernels), 'tuned kernel')}", kernels=len(table.kernels)
    )


def _merge(options: argparse.Namespace) -> int:
    database = _database(options, must_exist=False)
    count = sum(database.merge(Database(path, must_exist=True)) for path in options.others)
    return _say(options, f"{database.path}: {quantity(count, 'new trial')}", trials=count)


def _prune(options: argparse.Namespace) -> int:
    from ..driver.caching.fingerprint import fingerprint

    database = _database(options)
    count = database.prune([fingerprint()])
    return _say(options, f"{database.path}: {quantity(count, 'trial')} deleted", trials=count)


def _refit(options: argparse.Namespace) -> int:
    if options.target != "cpu":
        raise UsageError(f"--target {options.target}: only figures of this machine are fitted, for the target cpu")
    database, random, spaces, machines = _database(options), np.random.default_rng(0), {}, set()
    for path in options.models:
        source = read_source(path)
        inputs = Given.read(options, random).all_inputs(source.interface()[0], random)
        shapes = {name: array.shape for name, array in inputs.items()}
        setup = Setup.of(options.target, Options(winograd=not options.no_winograd, codegen_threads=1))
        with tunable_model(source, shapes, setup, {}) as model:
            spaces |= {name: kernel.space for name, kernel in model.kernels.items()}
            machines.add(database.add_machine(model.machine))
    trials = [trial for trial in database.trials() if trial.conditions.machine in machines]
    found = refit(refit_kernels(spaces, trials))
    is_kept = options.keep and found.is_better and keep_figures(found)
    if options.json:
        running.print_json({"schema": _SCHEMA, **asdict(found), "kept": is_kept})
        return 0
    print(f"{quantity(found.kernels, 'kernel')} with {quantity(found.trials, 'trial')}")
    print(f"the best schedule is {found.before:.3f} times as fast as the one that the cost function chooses")
    print(
        f"with fitted figures {found.after:.3f} times; with figures fitted to other kernels {found.left_out:.3f} times"
    )
    print("+".join(f"{name}={value:g}" for name, value in found.figures.items()) or "no figure is worth a change")
    if options.keep:
        print("kept: compiles for the target cpu use them" if is_kept else "not kept: kernels left out do not gain")
    return 0


def _say(options: argparse.Namespace, text: str, **record: Any) -> int:
    if options.json:
        running.print_json({"schema": _SCHEMA, **record})
    else:
        print(text)
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "search": _search,
    "list": _list,
    "show": _show,
    "why": _why,
    "export": _export,
    "merge": _merge,
    "refit": _refit,
    "prune": _prune,
}


if __name__ == "__main__":
    sys.exit(main())
