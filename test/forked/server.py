"""Runs commands in forked children of this process: `python server.py SOCKET`.

A client sends one JSON object with the file descriptors of its standard streams: the command's name or `python`, its
arguments, its working folder and its environment. It receives the exit code, and interrupts by closing the connection.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import stepwell
from stepwell.tools import stepwell as tools

PRELOADED = (
    *("numpy", "onnx", "stepwell.dialects.registry", "stepwell.explain.bisect.model"),
    *(f"stepwell.driver.{name}" for name in ("api", "compile.compilation", "compile.ranges")),
    *(f"stepwell.passes.graph.{name}" for name in ("simplification.canonicalize", "simplification.cse", "pipelines")),
)
"""Modules that are imported here instead of in every child process."""
LONGEST = 1 << 20
STREAMS = 3


def main() -> None:
    """Serves until the test process, which holds the other end of the standard input, has ended."""
    for name in PRELOADED:
        importlib.import_module(name)
    for name in ("compile", "load", "check", "Options"):
        getattr(stepwell, name)
    for name in tools.TOOLS:
        importlib.import_module(tools.MODULES.get(name, f".{name}"), "stepwell.tools")
    commands = {item.name: item for item in entry_points(group="console_scripts") if item.value.startswith("stepwell.")}
    mains = {name: item.load() for name, item in commands.items()}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system collects handlers that have ended
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen()
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    handle(connection, mains)
    os.remove(sys.argv[1])


def handle(connection: socket.socket, mains: dict[str, Callable[[], int]]) -> None:
    """Runs one command in a child, and sends its exit code; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(connection, LONGEST, STREAMS)
    request = json.loads(data)
    child = os.fork()
    if child == 0:
        run(request, descriptors, mains)
    for descriptor in descriptors:
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def run(request: dict, descriptors: list[int], mains: dict[str, Callable[[], int]]) -> None:
    """Runs a command as if its process had just started; never returns."""
    for stream, descriptor in enumerate(descriptors):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    for name, mode, stream in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
        setattr(sys, name, os.fdopen(stream, mode, 1 if stream == STREAMS - 1 else -1, closefd=False))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = [item for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    name, sys.argv = request["name"], [request["name"], *request["arguments"]]
    code = 1
    try:
        code = run_python(request["arguments"]) if name == "python" else mains[name]()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def run_python(arguments: list[str]) -> int:
    """Runs `-c TEXT` or a script."""
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        main_module = type(sys)("__main__")
        sys.modules["__main__"] = main_module
        exec(compile(arguments[1], "<string>", "exec"), main_module.__dict__)
    else:
        sys.argv = list(arguments)
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    main()
