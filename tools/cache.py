"""`stepwell-cache`: what is in the cache on disk, whether it is sound, and how to be rid of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from ..runtime.cache import Cache, Entry, default_cache
from . import arguments
from .console import print_table, progress
from .flags import UsageError

NAME = "stepwell-cache"
_DESCRIPTION = """Shows and tends the cache of compiled models.

    list      how much of each kind there is; with --entries every entry, the one used last first
    verify    read every entry and drop the damaged ones
    clear     drop every entry

STEPWELL_CACHE_DIR moves the cache, STEPWELL_CACHE_MEGABYTES bounds it, STEPWELL_CACHE=0 turns it off."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 where something went wrong or entries were damaged."""
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument("--entries", action="store_true", help="list every entry")
    options = parser.parse_args(argv)
    return arguments.run_tool(NAME, lambda: _ACTIONS[options.action](_cache(), options))


def _cache() -> Cache:
    cache = default_cache()
    if cache is None:
        raise UsageError("the cache is turned off (STEPWELL_CACHE)")
    return cache


def _list(cache: Cache, options: argparse.Namespace) -> int:
    entries = sorted(cache.entries(), key=lambda entry: entry.used, reverse=True)
    if options.entries:
        rows = [(entry.kind, entry.key, _megabytes([entry]), _when(entry.used)) for entry in entries]
        print_table(("kind", "key", "MB", "last used"), rows, numbers=("MB",))
    else:
        kinds: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            kinds[entry.kind].append(entry)
        rows = [(kind, str(len(some)), _megabytes(some), _when(some[0].used)) for kind, some in sorted(kinds.items())]
        print_table(("kind", "entries", "MB", "last used"), rows, numbers=("entries", "MB"))
    print(f"{cache.folder}: {_megabytes(entries)} of {cache.limit_bytes >> 20} MB")
    return 0


def _verify(cache: Cache, options: argparse.Namespace) -> int:
    count = sum(1 for _ in cache.entries())
    with progress(f"reading {count} entries"):
        damaged = cache.verify()
    for entry in damaged:
        print(f"dropped {entry.path}: damaged", file=sys.stderr)
    print(f"{count - len(damaged)} entries are sound")
    return 1 if damaged else 0


def _clear(cache: Cache, options: argparse.Namespace) -> int:
    print(f"{cache.folder}: dropped {cache.clear()} entries")
    return 0


_ACTIONS: dict[str, Callable[[Cache, argparse.Namespace], int]] = {"list": _list, "verify": _verify, "clear": _clear}


def _megabytes(entries: Sequence[Entry]) -> str:
    return f"{sum(entry.bytes for entry in entries) / (1 << 20):.2f}"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


if __name__ == "__main__":
    sys.exit(main())
