"""Files, tables and JSON to which `stepwell-bench` writes its figures."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from ..support.wording import quantity
from ..tools.console import print_table
from ..tools.flags import UsageError
from ..tools.outputs import FileKind, OutputFile, Outputs
from . import report
from .machine import HostRecord, cores


def output_file(options: argparse.Namespace, machine: HostRecord, name: str, kind: FileKind) -> OutputFile | None:
    """Returns the file that `--output` or `--keep` names; None without either."""
    if options.keep is not None:
        return Outputs().claim("--keep", options.keep / machine.slug / name, kind)
    models_given = [*getattr(options, "models", []), getattr(options, "model", None)]
    return None if options.output is None else Outputs(*models_given).claim("--output", options.output, kind)


def write_figures(output: OutputFile, text: str) -> None:
    """Writes figures to a file, whose folder is made."""
    output.path.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


def print_figures(options: argparse.Namespace, text: str, tables: Iterable[report.Table], head: str) -> None:
    """Prints figures: their JSON text with `--json`, else tables below a heading."""
    if options.json:
        print(text, end="")
        return
    print(head)
    print_tables(tables)


def print_tables(tables: Iterable[report.Table]) -> None:
    """Prints tables with their titles."""
    for table in tables:
        print(f"\n{table.title}")
        print_table(table.headers, table.rows, numbers=[name for name in table.headers if name not in table.words])


def check_cores(threads: Sequence[int]) -> None:
    """Checks that there is a core for each thread.

    Raises:
        UsageError: there is not.
    """
    if max(threads) > len(cores()):
        raise UsageError(f"--threads {max(threads)}: this process may use {quantity(len(cores()), 'core')}")
