"""Compares the code that two checkouts generate: `python test/style/same_code.py OTHER_CHECKOUT [MODEL...]`.

Models are names of `stepwell-bench models` or ONNX files with static shapes; by default, all that are installed. Each
checkout compiles them in a process of its own, without the cache. The objects of kernels and of @main are compared byte
for byte, but for the names of kernels, which are hashes; and so are the parameters of programs and the sizes of their
arenas. The exit code is 1 if anything differs.

    python test/style/same_code.py ../main ppocr-cls light-squeezenet --target x86-64-v3,x86-64-v4,aarch64
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_KERNEL = re.compile(rb"kernel_[0-9a-f]{20}")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a row for each model and target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the root of the other checkout")
    parser.add_argument("models", nargs="*", help="names of stepwell-bench's models, or ONNX files")
    parser.add_argument("--target", default="x86-64-v3", help="targets, separated by commas (default: %(default)s)")
    options = parser.parse_args(argv)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, work in _works(options.models, Path(folder)):
            for target in options.target.split(","):
                here, there = (_made_by(checkout, {**work, "target": target}) for checkout in (ROOT, options.other))
                found.append(Comparison.of(f"{name} {target}", here, there))
                print(found[-1], flush=True)
    total = Comparison("all", *(sum(getattr(item, field) for item in found) for field in _COUNTS))
    print(total)
    return not total.is_equal


_COUNTS = ("equal", "here", "there", "bytes_here", "bytes_there", "differences")


@dataclass(frozen=True)
class Comparison:
    """The comparison of one program.

    Attributes:
        name: the model and the target.
        equal: number of objects that are equal.
        here: number of objects that only this checkout makes.
        there: number of those that only the other one makes.
        bytes_here: size of this checkout's code.
        bytes_there: size of the other's.
        differences: number of other parts of the program that differ.
    """

    name: str
    equal: int
    here: int
    there: int
    bytes_here: int
    bytes_there: int
    differences: int

    @staticmethod
    def of(name: str, here: dict[str, Any], there: dict[str, Any]) -> Comparison:
        """Compares what `_describe` returned in two processes."""
        mine, other = Counter(here["objects"].values()), Counter(there["objects"].values())
        same = (mine & other).total()
        differences = sum(here[part] != there[part] for part in ("parameters", "arena"))
        sizes = here["bytes"], there["bytes"]
        return Comparison(name, same, mine.total() - same, other.total() - same, *sizes, differences)

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not (self.here or self.there or self.differences)

    def __str__(self) -> str:
        objects = f"{self.equal} objects equal, {self.here} only here, {self.there} only there"
        return f"{self.name}: {objects}; {self.bytes_here} and {self.bytes_there} bytes; {self.differences} other parts"


def _works(texts: Sequence[str], folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns the models that are installed, each with its file, its shapes, and the contents of scalar inputs."""
    from stepwell.bench import models

    found = []
    for model in models.chosen(texts):
        try:
            path = model.file(folder)
        except models.Missing as missing:
            print(f"{model.name}: skipped: {missing}")
            continue
        contents = {key: value.item() for key, value in model.inputs(path).items() if not value.shape}
        found.append((model.name, {"path": str(path), "shapes": dict(model.shapes), "contents": contents}))
    return found


def _made_by(checkout: Path, work: dict[str, Any]) -> dict[str, Any]:
    """Compiles a model by a checkout, in a process where that is the package `stepwell`."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "stepwell").symlink_to(checkout.resolve(), target_is_directory=True)
        command = [sys.executable, __file__, json.dumps(work)]
        environment = {**os.environ, "PYTHONPATH": folder, "STEPWELL_CODE_OF": str(checkout.resolve())}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _describe(work: dict[str, Any], checkout: str) -> dict[str, Any]:
    """Compiles a model by the package `stepwell` of this process; returns digests of the parts of its program."""
    import numpy as np
    import stepwell

    if Path(str(stepwell.__file__)).resolve().parent != Path(checkout):
        raise SystemExit(f"the package stepwell is {stepwell.__file__}, not {checkout}")
    executable = stepwell.compile(work["path"], target=work["target"], options=stepwell.Options(cache=False))
    dtypes = {info.name: info.dtype for info in executable.inputs}
    contents = {name: np.array(value, dtypes[name]) for name, value in work["contents"].items()}
    executable.prepare({name: tuple(shape) for name, shape in work["shapes"].items()}, contents)
    programs = executable.programs
    objects = [(name, data) for program in programs for name, data in program.objects.items()]
    arrays = [(name, array) for program in programs for name, array in program.parameters.items()]
    return {
        "objects": {name: _digest(_without_names(data)) for name, data in objects},
        "bytes": sum(len(data) for _, data in objects),
        "parameters": [_digest(np.ascontiguousarray(array).tobytes()) for _, array in arrays],
        "arena": [program.arena_bytes for program in programs],
    }


def _without_names(code: bytes) -> bytes:
    """Replaces the names of kernels, which are hashes of IR and target, by numbers in order of appearance."""
    numbers: dict[bytes, int] = {}
    return _KERNEL.sub(lambda found: b"kernel_%020d" % numbers.setdefault(found[0], len(numbers)), code)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    if "STEPWELL_CODE_OF" in os.environ:
        print(json.dumps(_describe(json.loads(sys.argv[1]), os.environ["STEPWELL_CODE_OF"])))
    else:
        sys.exit(main())
