"""Checks architectures of transformers against eager PyTorch: `python -m stepwell.bench.torch_models.check [NAME...]`.

Each runs in a process of its own, through torch.compile and torch.export, with fixed and with dynamic sizes; decoders
also generate text. A line of JSON for each goes to standard output, a summary to standard error.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import stepwell
import torch
from torch.utils import _pytree as pytree

from .families import FAMILIES, Family

_SECONDS = 400
_TOLERANCE = 1e-4
_SIZES = ((2, 12), (3, 17))


def main() -> int:
    """Checks the architectures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(FAMILIES)}")
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for name in given.names or FAMILIES:
        found = checked(name) if given.here else _in_process(name)
        print(json.dumps({"name": name, **found}), flush=True)
        counts.update((check, "ok" if result == "ok" else "torch" if _is_torchs(result) else "failed")
                      for check, result in found.items() if check != "on_torch")  # fmt: skip
    for (check, result), count in sorted(counts.items()):
        print(f"{check}: {result} {count}", file=sys.stderr)
    return 0


def _in_process(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "stepwell.bench.torch_models.check", "--here", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return {"all": f"took more than {_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"all": f"exit {done.returncode}: {done.stderr[-300:]}"}
    found = json.loads(lines[-1])
    del found["name"]
    return found


def checked(name: str) -> dict[str, Any]:
    """Returns the result of each check of an architecture: "ok", or what went wrong."""
    family = FAMILIES[name]
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    found: dict[str, Any] = {}
    checks: dict[str, Callable[[Family, str], None]] = {
        "compile": _compile, "compile dynamic": _compile_dynamic, "export": _export, "export dynamic": _export_dynamic,
    }  # fmt: skip
    if family.kind in ("decoder", "pair"):
        checks["generate"] = _generate
    on_torch: set[str] = set()
    for check, run in checks.items():
        torch._dynamo.reset()
        try:
            run(family, name)
            found[check] = "ok"
        except Exception as error:  # of any system that takes part
            found[check] = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        graphs = stepwell.torch_report().graphs
        on_torch |= {f"{item.op_type}: {item.reason[:120]}" for graph in graphs for item in graph.on_torch}
        on_torch |= {graph.note for graph in graphs if "failed" in graph.note}
    found["on_torch"] = sorted(on_torch)
    return found


def _is_torchs(result: str) -> bool:
    """Returns whether torch itself cannot do it."""
    return result.startswith("NotTaken")


class NotTaken(Exception):  # what the check is about, not an error of ours
    """Torch itself fails."""


def _compile(family: Family, name: str) -> None:
    model, given = family.make(name), family.inputs(*_SIZES[0])
    run = torch.compile(model, backend="stepwell", options={"freezing": True})
    for _ in range(2):
        _compare(run(**given), model(**given))


def _compile_dynamic(family: Family, name: str) -> None:
    model = family.make(name)
    run = torch.compile(model, backend="stepwell", dynamic=True)
    for sizes in _SIZES:
        given = family.inputs(*sizes)
        _compare(run(**given), model(**given))


def _export(family: Family, name: str) -> None:
    model, given = family.make(name, use_cache=False), family.inputs(*_SIZES[0])
    program = _exported(model, given, None)
    _compare(_tensors(stepwell.compile(program)(**given)), _tensors(model(**given)))


def _export_dynamic(family: Family, name: str) -> None:
    model, given = family.make(name, use_cache=False), family.inputs(*_SIZES[0])
    dims = {key: dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for key, value in given.items()}
    run = stepwell.compile(_exported(model, given, dims))
    for sizes in _SIZES:
        given = family.inputs(*sizes)
        try:
            made = _tensors(run(**given))
        except stepwell.InputError as error:
            raise NotTaken(str(error)) from error
        _compare(made, _tensors(model(**given)))


def _exported(model: torch.nn.Module, given: dict[str, torch.Tensor], dims: Any) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(model, (), {**given}, dynamic_shapes=dims)
    except Exception as error:  # of any type of torch or transformers
        raise NotTaken(f"{type(error).__name__}: {error}") from error


def _generate(family: Family, name: str) -> None:
    model: Any = family.make(name)
    given = family.inputs(*_SIZES[0])
    given = {key: value for key, value in given.items() if not key.startswith("decoder_")}
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6, "disable_compile": True}
    try:
        wanted = model.generate(**given, **options)
    except Exception as error:  # of any type of torch or transformers
        raise NotTaken(f"{type(error).__name__}: {error}") from error
    model.forward = torch.compile(model.forward, backend="stepwell", dynamic=True)
    made = model.generate(**given, **options)
    if not torch.equal(made, wanted):
        raise AssertionError(f"generates {made.tolist()}, not {wanted.tolist()}")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(value) if isinstance(item, torch.Tensor)]


def _compare(made: Any, wanted: Any) -> None:
    for own, theirs in zip(_tensors(made), _tensors(wanted), strict=True):
        torch.testing.assert_close(own, theirs, rtol=_TOLERANCE, atol=_TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
