"""Runs a command in the server: `python -I -S client.py NAME ARGUMENT...`; needs few modules, to start quickly."""

import json
import os
import socket
import sys


def needs_a_start(arguments: list[str]) -> bool:
    """Returns whether Python must start anew: for other options than `-c`, and with the drop-in's start hook."""
    first = arguments[0] if arguments else ""
    return "STEPWELL_DROP_IN" in os.environ or not (first == "-c" or first.endswith(".py"))


def main() -> int:
    """Sends the request with the standard streams, and returns the command's exit code."""
    if sys.argv[1] == "python" and needs_a_start(sys.argv[2:]):
        os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["STEPWELL_TEST_SERVER"])
        request = {
            "name": sys.argv[1],
            "arguments": sys.argv[2:],
            "folder": os.getcwd(),
            "environment": dict(os.environ),
        }
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        code = int(connection.recv(16) or b"1")
    if code < 0:  # the command was ended by a signal
        import signal

        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


sys.exit(main())
