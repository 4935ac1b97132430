"""Creates the folder that is run on a machine with a GPU: `python -m stepwell.bench.gpu.prepare FOLDER`."""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ...driver import api
from ...passes.infra.failure import CompileError
from ...runtime.artefact import writer
from ...runtime.cuda.assembler import find_assembler
from ...runtime.executable import Executable
from ...support.errors import RuntimeFailure
from ...support.wording import quantity
from .. import models
from . import cases, whole
from .data import contents

_CARRIED = (
    "__init__.py",
    "machines",
    "runtime",
    "sizes",
    "support",
    "targets/__init__.py",
    "targets/nvidia/__init__.py",
    "targets/nvidia/simulator",
    "bench/__init__.py",
    "bench/bert.py",
    "bench/onnx_graph.py",
    "bench/gpu",
    "bench/torch_models",
)
_ROOT = Path(__file__).parents[2]
_MODELS = ("ppocr-det", "ppocr-rec", "ppocr-cls", "minilm", "light-resnet50", "light-densenet121")
_TYPES = {"f32": "float32", "tf32": "float16", "bf16": "bfloat16", "f16": "float16"}
"""The type with the same number of significant bits, whose tolerance applies."""
_RUN = '''"""Checks the cases in this folder on a GPU: python run.py [--bench] [--json FILE]"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from stepwell.bench.gpu.run import main

sys.exit(main([str(Path(__file__).parent), *sys.argv[1:]]))
'''


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles the requested cases; returns 0 if all were compiled."""
    parser = argparse.ArgumentParser(prog="python -m stepwell.bench.gpu.prepare", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_90a", help="target of the compile (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain this")
    parser.add_argument("--models", nargs="*", default=_MODELS, metavar="MODEL", help="as stepwell-bench names them")
    known = tuple(_TYPES)
    text = "precision of the models' products (default: only float32)"
    parser.add_argument("--precision", nargs="*", default=["f32"], choices=known, metavar="PRECISION", help=text)
    parser.add_argument("--small", action="store_true", help="leave out the large cases, which are only timed")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    kernels = [*cases.checked(), *([] if given.small else cases.timed())]
    makers: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (case.name, lambda case=case: _kernel(case, given.target, given.folder)) for case in kernels
    ]
    for model in models.chosen(given.models) if given.models else []:
        for precision in given.precision:
            name = model.name if precision == "f32" else f"{model.name}+{precision}"
            make = functools.partial(_model, model, name, given.target, precision, given.folder)
            makers.append((name, make))
    for model in [] if given.small else whole.timed():
        for precision in given.precision:
            name = model.name if precision == "f32" else f"{model.name}+{precision}"
            make = functools.partial(_whole, model, name, given.target, precision, given.folder)
            makers.append((name, make))
    records, failed = [], False
    for name, make in makers:
        if given.only not in name:
            continue
        try:
            records.append({"name": name, **make()})
        except (CompileError, RuntimeFailure, models.MissingModel) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    record = {"schema": 1, "target": given.target, "cases": records}
    (given.folder / "cases.json").write_text(json.dumps(record, indent=1))
    _carry(given.folder)
    size = sum(path.stat().st_size for path in given.folder.rglob("*") if path.is_file())
    print(f"{quantity(len(records), 'case')} are in {given.folder}, {size / 2**20:.0f} MiB", file=sys.stderr)
    return int(failed)


def _kernel(case: cases.GpuCase, target: str, folder: Path) -> dict[str, Any]:
    """Compiles a case; returns its record."""
    model = case.make()
    facts = {name: value for name, value in asdict(case).items() if name in ("dtype", "peer", "flops", "nbytes")}
    record = {**facts, "tolerance": cases.TOLERANCES[case.dtype]}
    if case.timed:
        return {**record, **_compiled(model, case.name, target, folder, None)}
    executable = api.compile(model)
    given = {
        info.name: contents([int(dim) for dim in info.shape], info.dtype, seed)
        for seed, info in enumerate(executable.inputs)
    }
    return {**record, **_compiled(model, case.name, target, folder, (given, executable))}


def _model(model: models.BenchModel, name: str, target: str, precision: str, folder: Path) -> dict[str, Any]:
    """Compiles a model of the benchmark's list; a CPU computes the expected results in the same precision."""
    with tempfile.TemporaryDirectory() as scratch:
        path = model.file(Path(scratch))
        given = model.inputs(path)
        tolerance = cases.TOLERANCES[_TYPES[precision]]
        record = {"dtype": "float32", "peer": "", "flops": 0, "nbytes": 0, "tolerance": tolerance}
        executable = api.compile(str(path), options=api.Options(precision=precision))
        return {**record, **_compiled(str(path), name, target, folder, (given, executable), precision)}


def _whole(model: whole.WholeModel, name: str, target: str, precision: str, folder: Path) -> dict[str, Any]:
    """Compiles a model that is only timed, and stores the peers' version of it."""
    made = model.make()
    on_gpu = api.compile(made, target, options=api.Options(fallback="error", precision=precision))
    on_gpu.try_prepare({name: shape for name, shape in model.shapes.items() if not _is_static(on_gpu, name)})
    stored = on_gpu.stored()
    programs = tuple(replace(program, parameters=whole.splats(program.parameters)) for program in stored.programs)
    kept = replace(stored, programs=programs)
    writer.write(folder / f"{name}.stw", kept, cubins=find_assembler() is not None)
    onnx.save(made, folder / f"{name}.onnx")
    facts = {"dtype": "float32", "peer": "", "flops": 0, "nbytes": 0, "tolerance": 0.0, "precision": precision}
    return {**facts, "artefact": f"{name}.stw", "data": None, "torch": model.torch, "onnx": f"{name}.onnx"}


def _is_static(executable: Executable, name: str) -> bool:
    return next(info.is_static for info in executable.inputs if info.name == name)


def _compiled(
    model: str | onnx.ModelProto,
    name: str,
    target: str,
    folder: Path,
    reference: tuple[dict[str, np.ndarray], Executable] | None,
    precision: str = "f32",
) -> dict[str, Any]:
    """Writes the artefact, and the expected results if there is a reference."""
    on_gpu = api.compile(model, target, options=api.Options(fallback="error", precision=precision))
    data = None
    if reference is not None:
        given, executable = reference
        on_gpu.try_prepare({place: array.shape for place, array in given.items()})
        outputs = executable.outputs_for(given)
        arrays = {f"in.{place}": array for place, array in given.items()}
        arrays |= {f"out.{info.name}": array for info, array in zip(executable.outputs, outputs, strict=True)}
        data = f"{name}.npz"
        np.savez(folder / data, allow_pickle=False, **{key: _plain(array) for key, array in arrays.items()})
    writer.write(folder / f"{name}.stw", on_gpu.stored(), cubins=find_assembler() is not None)
    return {"artefact": f"{name}.stw", "data": data}


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns an array of a type that `.npz` supports: bfloat16 becomes float32, exactly."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def _carry(folder: Path) -> None:
    """Copies the runtime and the simulator into the folder, and the script that uses it."""
    home = folder / "stepwell"
    shutil.rmtree(home, ignore_errors=True)
    for name in _CARRIED:
        source, target = _ROOT / name, home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (folder / "run.py").write_text(_RUN)


if __name__ == "__main__":
    sys.exit(main())
