"""Runs `stepwell-opt` once per line of the standard input, without loading the libraries each time.

A line is a JSON list: the folder to run in, the file for the standard input ("" for none), and the arguments. The
answer, one line each, is the wait status; the outputs lie in `stdout` and `stderr` in the folder above.
"""

from __future__ import annotations

import json
import os
import sys

from stepwell.tools import opt, opt_flags, opt_tool  # noqa: F401  (what a child process would load)


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


list(opt_flags.all_names())  # found out once
for line in sys.stdin:
    answer = run(*json.loads(line))
    print(answer, flush=True)
