"""`stepwell-bench`: the command of the benchmark harness, which is in `bench/`."""

from __future__ import annotations

import sys

from ..bench.command import NAME, main

__all__ = ["NAME", "main"]

if __name__ == "__main__":
    sys.exit(main())
