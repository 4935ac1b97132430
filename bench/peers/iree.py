"""IREE: its ONNX importer, its compiler for this CPU, and its runtime in this process."""

from __future__ import annotations

import hashlib
import importlib
import warnings
from pathlib import Path

import numpy as np
import onnx

from . import Job, PeerSession, Unsupported

_FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
_OPSET = "17"


def open_session(job: Job) -> PeerSession:
    """Loads the module from the job's folder, or compiles it for the inputs' shapes."""
    compiled = job.folder / f"{_key(job)}.vmfb"
    if not compiled.exists():
        compiled.write_bytes(_compile(job))
    runtime = importlib.import_module("iree.runtime")
    # One thread runs in the caller; more are a separate pool.
    if job.threads > 1:
        runtime.flags.parse_flags(f"--task_topology_group_count={job.threads}")
    config = runtime.Config("local-task" if job.threads > 1 else "local-sync")
    module = runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, str(compiled)), config)
    (name,) = [name for name in module.vm_module.function_names if "$" not in name and not name.startswith("__")]
    function = module[name]
    arrays = [runtime.asdevicearray(config.device, array) for array in job.inputs.values()]

    def outputs() -> list[np.ndarray]:
        results = function(*arrays)
        several = results if isinstance(results, tuple | list) else [results]
        return [np.array(item.to_host()) for item in several]

    return PeerSession(lambda: function(*arrays), outputs, lambda: {"artefact_bytes": compiled.stat().st_size})


def _key(job: Job) -> str:
    shapes = repr([(name, array.shape) for name, array in job.inputs.items()])
    return hashlib.sha256(f"{job.name} {shapes}".encode()).hexdigest()[:20]


def _compile(job: Job) -> bytes:
    importer = importlib.import_module("iree.compiler.tools.import_onnx.__main__")
    compiler = importlib.import_module("iree.compiler.tools")
    model, imported = job.folder / "static.onnx", job.folder / "imported.mlir"
    _write_static(job, model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importer.main(importer.parse_arguments([str(model), "-o", str(imported), "--opset-version", _OPSET]))
    except Exception as error:  # the importer raises any type
        raise Unsupported(f"its importer: {error}") from error
    try:
        return compiler.compile_file(str(imported), target_backends=["llvm-cpu"], extra_args=_FLAGS)
    except compiler.CompilerToolError as error:
        errors = [line for line in str(error).splitlines() if "error:" in line]
        reason = errors[0] if errors else str(error)
        raise Unsupported(f"its compiler: {reason.replace(str(imported), imported.name)}") from error


def _write_static(job: Job, path: Path) -> None:
    """Writes the model with the inputs' shapes in place of its symbolic dimensions."""
    model = onnx.load(job.path)
    for value in model.graph.input:
        if value.name in job.inputs:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in job.inputs[value.name].shape:
                shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    onnx.save(model, path)
