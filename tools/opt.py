"""`stepwell-opt`: runs upstream and Stepwell passes on MLIR, with the flags, formats and messages of `mlir-opt`.

This module imports little: the parent process only waits for the child that does the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..passes.infra.progress_note import write_notes_to
from .supervisor import Supervisor

NAME = "stepwell-opt"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code.

    Run as a program, without `arguments`, it ends with the signal of a crash in native code; called from Python, it
    returns 1.
    """
    supervisor = Supervisor(ends_as_child=arguments is None)
    given = sys.argv[1:] if arguments is None else arguments
    return supervisor.run(
        NAME,
        lambda: _main(given, supervisor),
        lambda: _run_one_by_one(given, supervisor),
        lambda: None,
    )


def _main(arguments: Sequence[str], supervisor: Supervisor) -> int:
    from ..support import environment
    from .flags import UsageError

    write_notes_to(supervisor.note)
    try:
        environment.check()
        from .opt_tool import run

        return run(NAME, arguments, supervisor.note)
    except environment.VariableError as error:
        print(f"{NAME}: error: {error}", file=sys.stderr)
        return 2
    except UsageError as error:
        print(error, file=sys.stderr)
        return 1
    except MemoryError:
        print(f"{NAME}: there is not enough memory", file=sys.stderr)
        return 1
    except OSError as error:
        return _report_os_error(error)


def _run_one_by_one(arguments: Sequence[str], supervisor: Supervisor) -> int:
    """Runs the passes one by one, so that the note names the one that crashes; writes nothing."""
    from .opt_tool import run

    write_notes_to(supervisor.note)
    return run(NAME, arguments, supervisor.note, one_by_one=True)


def _report_os_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        # The reader closed the output; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif error.filename is None:
        print(f"{NAME}: cannot read or write: {error.strerror}", file=sys.stderr)
    else:
        print(f"cannot open file '{error.filename}': {error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
