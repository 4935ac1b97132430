"""Runs `stepwell-opt` once per line of standard input, without loading the libraries each time.

A line is a JSON list: the working folder, the file for standard input ("" for none), and the arguments. The answer,
one line each, is the wait status; the outputs are written to `stdout` and `stderr` in the parent folder.
"""

from __future__ import annotations

import json
import os
import sys

# Imported here instead of in every child process.
from stepwell.dialects import registry  # noqa: F401
from stepwell.passes.graph.simplification import canonicalize, cse  # noqa: F401
from stepwell.tools import opt, opt_flags, opt_passes, opt_tool  # noqa: F401


def run(folder: str, stdin: str, arguments: list[str]) -> int:
    """Runs the tool in a child process and returns its wait status."""
    child = os.fork()
    if child != 0:
        return os.waitpid(child, 0)[1]
    os.chdir(folder)
    for descriptor, path, flags in (
        (0, stdin or os.devnull, os.O_RDONLY),
        (1, "../stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, "../stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        os.dup2(os.open(path, flags), descriptor)
    code = 1
    try:
        sys.argv[1:] = arguments
        code = opt.main()
        sys.stdout.flush()
    finally:
        sys.stderr.flush()
        os._exit(code)


list(opt_flags.all_names())  # computed once
for line in sys.stdin:
    answer = run(*json.loads(line))
    print(answer, flush=True)
