"""Links relocatable objects to a shared library with the system's compiler driver, if there is one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...support.errors import StepwellWarning
from ...support.warning import warn
from .. import processor
from ..program import ENTRY, WORK, CodeTarget

# Without a build id, equal objects give equal bytes.
_FLAGS = (
    "-shared",
    "-nostartfiles",
    "-Wl,--build-id=none",
    # Prefers the library's own kernels to symbols of the same name in the process.
    "-Wl,-Bsymbolic",
    "-Wl,--gc-sections",
    f"-Wl,--undefined={ENTRY}",
    f"-Wl,--undefined={WORK}",
)


def link(objects: Mapping[str, bytes], target: CodeTarget) -> bytes | None:
    """Returns a shared library of `objects`; None if this machine cannot link for the target, as objects also work."""
    driver = shutil.which("cc")
    if driver is None or processor.system() != "linux" or target.architecture != processor.architecture():
        return None
    try:
        return _linked(objects, driver)
    except OSError as error:
        warn(f"cc could not link, so the artefact has objects, not a library: {error}", StepwellWarning)
        return None


def _linked(objects: Mapping[str, bytes], driver: str) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        for number, data in enumerate(objects.values()):
            Path(folder, f"{number}.o").write_bytes(data)
        names = [f"{number}.o" for number in range(len(objects))]
        command = [driver, *_FLAGS, "-o", "program.so", *names, "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            message = " / ".join(done.stderr.strip().splitlines()[-2:])
            warn(f"cc could not link, so the artefact has objects, not a library: {message}", StepwellWarning)
            return None
        return Path(folder, "program.so").read_bytes()
