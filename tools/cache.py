"""`stepwell-cache`: lists, explains, verifies and trims the cache on disk."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ..driver.caching.cache_key import remembered
from ..runtime.cache.cache import Cache, Entry, default_cache
from ..support.wording import quantity
from . import arguments, model_options, running
from .console import print_table, progress
from .flags import UsageError
from .model_options import Given

NAME = "stepwell-cache"
_SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
_DESCRIPTION = """Shows and maintains the cache of compiled models.

    list            show the size of each kind of entry; with --entries every entry, most recently used first
    explain MODEL   report whether code for a model is cached; if not, how the nearest entry differs
    verify          read every entry and drop the damaged ones
    gc              drop the least recently used entries until --max-size is kept
    clear           drop every entry

STEPWELL_CACHE_DIR moves the cache, STEPWELL_CACHE_MEGABYTES limits its size, STEPWELL_CACHE=0 disables it,
STEPWELL_CACHE=require makes a miss an error."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error, for damaged entries, or for a cache miss."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, lambda options: _ACTIONS[options.action](_cache(), options), options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="action to perform")
    made = {action: actions.add_parser(action) for action in _ACTIONS}
    for each in made.values():
        model_options.add_output_options(each)
    made["list"].add_argument("--entries", action="store_true", help="list every entry")
    made["gc"].add_argument(
        "--max-size", type=_bytes, required=True, metavar="SIZE", help="size to keep, in bytes or as 500M, 2G"
    )
    explain = made["explain"]
    explain.add_argument("model")
    model_options.add_model_options(explain)
    model_options.add_fields(explain, "precision", "low_rank", "batch_invariant", "checked")
    return parser


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,19})([KMG]?)B?", text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size: write it as 500M or 2G")
    return int(found[1]) * _UNITS[found[2]]


def _cache() -> Cache:
    cache = default_cache()
    if cache is None:
        raise UsageError("the cache is turned off (STEPWELL_CACHE)")
    return cache


def _list(cache: Cache, options: argparse.Namespace) -> int:
    entries = sorted(cache.entries(), key=lambda entry: entry.used, reverse=True)
    kinds: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        kinds[entry.kind].append(entry)
    programs = _programs(cache)
    if options.json:
        listed = [asdict(entry) | {"path": str(entry.path)} for entry in entries] if options.entries else None
        totals = {kind: {"entries": len(some), "bytes": _total(some)} for kind, some in sorted(kinds.items())}
        return _print_json(
            folder=str(cache.folder),
            bytes=_total(entries),
            limit=cache.limit_bytes,
            kinds=totals,
            programs=programs,
            entries=listed,
        )
    if options.entries:
        rows = [(entry.kind, entry.key, _megabytes([entry]), _time_text(entry.used)) for entry in entries]
        print_table(("kind", "key", "MB", "last used"), rows, numbers=("MB",))
    else:
        rows = [
            (kind, str(len(some)), _megabytes(some), _time_text(some[0].used)) for kind, some in sorted(kinds.items())
        ]
        print_table(("kind", "entries", "MB", "last used"), rows, numbers=("entries", "MB"))
        print_programs(programs)
    print(f"{cache.folder}: {_megabytes(entries)} of {cache.limit_bytes >> 20} MB")
    return 0


def _programs(cache: Cache) -> list[dict[str, Any]]:
    """Returns model, shapes and target of each program in the cache, most recently used first."""
    used = {entry.key: entry.used for entry in cache.entries() if entry.kind == "programs"}
    found = [
        {
            "model": key.name,
            "shapes": key.shapes or key.sizes,
            "target": key.target,
            "options": key.options,
            "compiler": key.compiler,
            "key": key.digest,
            "used": used.get(key.digest, 0.0),
        }
        for key in remembered(cache)
    ]
    return sorted(found, key=lambda item: item["used"], reverse=True)


def print_programs(programs: Sequence[dict[str, Any]]) -> None:
    """Prints the programs; those that agree in model, shapes and target share a line."""
    rows: dict[tuple[str, str, str], list[float]] = {}
    for item in programs:
        place = item["model"], item["shapes"] or "inputs of fixed shape", item["target"]
        rows.setdefault(place, []).append(item["used"])
    if rows:
        print()
        lines = [(*place, str(len(used)), _time_text(max(used))) for place, used in rows.items()]
        print_table(("model", "shapes", "target", "programs", "last used"), lines, numbers=("programs",))


def _explain(cache: Cache, options: argparse.Namespace) -> int:
    from ..explain.cache import Answer, entries_of, explain_cache

    if options.no_cache:
        raise UsageError("--no-cache: a compile without the cache has no entry to explain")
    chosen = model_options.compile_options(options)
    given = Given.read(options)
    answers: list[Answer] = explain_cache(cache, options.model, given.every_set(), options.target, chosen, given.arrays)
    is_hit = all(answer.is_hit for answer in answers)
    if options.json:
        _print_json(hit=is_hit, programs=[answer.record() for answer in answers])
        return 0 if is_hit else 1
    for answer in answers:
        where = answer.key.shapes or answer.key.sizes or "inputs of fixed shape"
        print(f"{options.model}, {where}: {'hit' if answer.is_hit else 'miss'}")
        if answer.nearest is not None:
            print(f"the nearest entry is of {answer.nearest.shapes or answer.nearest.sizes or answer.nearest.name}:")
            rows = [(part, here or "none", there or "none") for part, (here, there) in answer.differences.items()]
            print_table(("part of the key", "requested", "cached"), rows)
    if not is_hit and not any(answer.nearest for answer in answers):
        print("nothing of this model is in the cache")
    elif not is_hit:
        print(f"the cache has code of this model for: {_listed(entries_of(cache, options.model))}")
    return 0 if is_hit else 1


def _listed(keys: Sequence[Any]) -> str:
    return "; ".join(sorted({key.shapes or key.sizes or "inputs of fixed shape" for key in keys})) or "nothing"


def _verify(cache: Cache, options: argparse.Namespace) -> int:
    count = sum(1 for _ in cache.entries())
    with progress(options, f"reading {quantity(count, 'entry')}"):
        damaged = cache.verify()
    if options.json:
        _print_json(sound=count - len(damaged), dropped=[f"{entry.kind}/{entry.key}" for entry in damaged])
        return 1 if damaged else 0
    for entry in damaged:
        print(f"dropped {entry.path}: damaged", file=sys.stderr)
    print(f"{count - len(damaged)} entries are sound")
    return 1 if damaged else 0


def _collect(cache: Cache, options: argparse.Namespace) -> int:
    return _report_dropped(cache, cache.shrink(options.max_size), options)


def _clear(cache: Cache, options: argparse.Namespace) -> int:
    return _report_dropped(cache, cache.clear(), options)


def _report_dropped(cache: Cache, dropped: int, options: argparse.Namespace) -> int:
    left = list(cache.entries())
    if options.json:
        return _print_json(dropped=dropped, entries=len(left), bytes=_total(left))
    print(f"{cache.folder}: dropped {dropped} entries, {_megabytes(left)} MB are left")
    return 0


_ACTIONS: dict[str, Callable[[Cache, argparse.Namespace], int]] = {
    "list": _list,
    "explain": _explain,
    "verify": _verify,
    "gc": _collect,
    "clear": _clear,
}


def _print_json(**record: Any) -> int:
    print(json.dumps({"schema": _SCHEMA, **record}, indent=2))
    return 0


def _total(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _megabytes(entries: Sequence[Entry]) -> str:
    return f"{_total(entries) / (1 << 20):.2f}"


def _time_text(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


if __name__ == "__main__":
    sys.exit(main())
