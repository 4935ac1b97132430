"""The commands `ranges` and `new-sizes` of `stepwell-bench`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ..tools import arguments
from ..tools.flags import UsageError
from ..tools.outputs import NEW_SIZES, RANGE_FIGURES, FileKind
from . import models, range_cases, ranges, report
from .figure_output import check_cores, output_file, print_tables, write_figures
from .machine import describe


def measure_ranges(options: argparse.Namespace) -> int:
    """Measures models compiled once for ranges of sizes, against one compile for each size; returns the exit code."""
    if options.model is None:
        return _range_cases(options, "ranges", RANGE_FIGURES, range_cases.in_ranges())
    dims = arguments.parse_dims(options.dims)
    listed = [case for case in range_cases.in_ranges() if case.model.name == options.model]
    if listed and not dims:
        cases = [replace(case, sizes=_sizes(options.at) or case.sizes) for case in listed]
        return _range_cases(options, f"ranges-{options.model}", RANGE_FIGURES, cases)
    if not dims:
        raise UsageError("a model needs --dims: the sizes of its dimensions, such as --dims length=1:512")
    sizes = _sizes(options.at) or ranges.chosen_sizes(dims)
    named = {name for name, given in dims.items() if not isinstance(given, str)}
    if any(given.keys() != named for given in sizes):
        raise UsageError(f"--at must give a size to each of {', '.join(sorted(named))}: {', '.join(options.at)}")
    case = range_cases.RangeCase(models.named(options.model), dims, sizes)
    return _range_cases(options, f"ranges-{Path(options.model).stem}", RANGE_FIGURES, [case])


def measure_new_sizes(options: argparse.Namespace) -> int:
    """Measures first calls at new sizes; returns the exit code."""
    if options.model is None:
        return _range_cases(options, "new-sizes", NEW_SIZES, range_cases.at_new_sizes())
    sizes = _sizes(options.at)
    if not sizes or not all(sizes):
        raise UsageError(f"--at must give sizes: {', '.join(options.at)}")
    case = range_cases.RangeCase(models.named(options.model), {}, sizes)
    return _range_cases(options, f"new-sizes-{Path(options.model).stem}", NEW_SIZES, [case])


def _sizes(texts: Iterable[str]) -> list[dict[str, int]]:
    """Returns sizes of dimensions from the command line; without those that are no numbers."""
    found = [arguments.parse_dims(text.split(",")) for text in texts]
    return [{name: size for name, size in given.items() if isinstance(size, int)} for given in found]


def _range_cases(options: argparse.Namespace, name: str, kind: FileKind, cases: Sequence[range_cases.RangeCase]) -> int:
    """Measures models in ranges, or first calls at new sizes, and prints their tables and a summary of several."""
    is_ranges = kind is RANGE_FIGURES
    table = report.ranges_table if is_ranges else report.new_sizes_table
    if options.model is None and (options.at or vars(options).get("dims")):
        raise UsageError("--dims and --at need a model")
    check_cores([options.threads])
    machine, found = describe(), {}
    output = output_file(options, machine, f"{name}.json", kind)
    if not options.json:
        print(machine)
    for case in cases:
        made = found[case.model.name] = case.measured(options.threads, options.seconds, vars(options).get("rounds"))
        if not options.json:
            print_tables([table(case.model.name, made)])
    records = [{"model": case.model.name, "dims": case.dims, **asdict(found[case.model.name])} for case in cases]
    record = {"schema": 3, "threads": options.threads, "machine": asdict(machine), "models": records}
    text = json.dumps(record, indent=1) + "\n"
    if options.json:
        print(text, end="")
    elif is_ranges and len(found) > 1:
        print_tables([report.ranges_summary(found)])
    if output is not None:
        write_figures(output, text)
    return 0
