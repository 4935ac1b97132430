"""Compares compiled entries with eager PyTorch."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import stepwell
import torch
from torch.utils import _pytree as pytree

from . import gradients
from .entries import Calls, Entry, Sample

OUTCOMES = ("native", "partly", "wrong", "exception", "crash", "not captured", "no samples")
TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4}
_FAILED = ("compiler failed", "importer failed", "code failed")


@dataclass
class Result:
    """The outcome of an entry on a route.

    Attributes:
        name: the entry.
        route: "export", "compile" or "gradients".
        outcome: one of `OUTCOMES`; that of its worst sample.
        reasons: what ran in torch, or failed, with the sample.
        seconds: the time that it took.
    """

    name: str
    route: str
    outcome: str
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return asdict(self)


def compared(entry: Entry, route: str) -> Result:
    """Runs an entry; all of its samples at once, and one by one if that fails."""
    if route == "gradients":
        samples = [sample for sample in (entry.differentiable or list)() if gradients.has_gradient(sample)]
    else:
        samples = [sample for sample in entry.samples() if _runs(sample)]
    if not samples:
        return Result(entry.name, route, "no samples")
    whole = _outcome(entry, samples, route)
    if whole[0] in ("native", "partly") or len(samples) == 1:
        return Result(entry.name, route, *whole)
    single = [_outcome(entry, [sample], route) for sample in samples]
    captured = [item for item in single if item[0] != "not captured"] or single
    worst = max((outcome for outcome, _ in captured), key=OUTCOMES.index)
    if worst in ("native", "partly"):  # only together they fail
        return Result(entry.name, route, *whole)
    return Result(entry.name, route, worst, [text for outcome, texts in single for text in texts if outcome == worst])


def _runs(sample: Sample) -> bool:
    """Returns whether a sample runs in eager mode."""
    try:
        _eager(Calls([sample]))
    except Exception:  # samples that torch itself refuses are no test
        return False
    return True


def _eager(calls: Calls, seed: int = 0) -> list[Any]:
    torch.manual_seed(seed)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytree.tree_leaves(calls(*_copies(calls.tensors)))


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _outcome(entry: Entry, samples: Sequence[Sample], route: str) -> tuple[str, list[str]]:
    label = f"[{', '.join(sample.name for sample in samples)}] " if len(samples) == 1 else ""
    calls = Calls(samples)
    eager = gradients.eager if route == "gradients" else _eager
    wanted = eager(calls)
    has_contents = entry.has_contents and not any(_difference(wanted, eager(calls, seed)) for seed in (1, 2, 3))
    runs: Callable[..., tuple[list[Any], list[str]]] = _RUNS[route]
    with torch.set_grad_enabled(route == "gradients"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made, on_torch = runs(entry, calls)
        except Exception as error:  # the entry's outcome
            text = f"{label}{type(error).__name__}: {' '.join(str(error).split())[:400]}"
            is_of_torch = "torch.export failed" in str(error) if route == "export" else _fails_in_torch(calls, route)
            return ("not captured" if is_of_torch else "exception"), [text]
    if entry.has_ties:
        made, wanted = (_without_places(item, route) for item in (made, wanted))
    slack = entry.gradient_slack if route == "gradients" else entry.slack
    if text := _difference(made, wanted, has_contents, slack):
        if route != "export" and _difference(_reference(calls, route), wanted, has_contents):
            return "not captured", [f"{label}torch.compile itself differs: {text}"]
        return "wrong", [label + text]
    if any(failed in text for text in on_torch for failed in _FAILED):
        is_of_torch = route != "export" and _fails_in_torch(calls, route)
        return ("not captured" if is_of_torch else "exception"), [label + text for text in on_torch]
    return ("partly" if on_torch else "native"), on_torch


def _exported(entry: Entry, calls: Calls) -> tuple[list[Any], list[str]]:
    options = stepwell.Options(cache=False, fallback="quiet")
    if entry.dynamic_shapes is not None:
        (function,), (args, kwargs) = (
            calls.functions,
            pytree.tree_unflatten([leaf[0] if leaf else None for leaf in calls.arguments[0][0]], calls.arguments[0][1]),
        )
        given = iter(_copies(calls.tensors))
        args, kwargs = pytree.tree_map(
            lambda leaf: next(given) if leaf is None else leaf, (args, kwargs), is_leaf=lambda leaf: leaf is None
        )
        run: Any = stepwell.compile(function, args, kwargs, dynamic_shapes=entry.dynamic_shapes, options=options)
        made = run(*args, **kwargs)
    else:
        run = stepwell.compile(calls, tuple(_copies(calls.tensors)), options=options)
        torch.manual_seed(0)
        made = run(*_copies(calls.tensors))
    return pytree.tree_leaves(made), sorted({f"{item.op_type}: {item.reason}" for item in run.fallbacks})


def _compiled(entry: Entry, calls: Calls) -> tuple[list[Any], list[str]]:
    torch._dynamo.reset()
    options = {"cache": False, "fallback": "quiet"}
    run = torch.compile(calls, backend="stepwell", dynamic=True, options=options)
    torch.manual_seed(0)
    made = pytree.tree_leaves(run(*_copies(calls.tensors)))
    graphs = stepwell.torch_report().graphs
    reasons = {f"{item.op_type}: {item.reason}" for graph in graphs for item in graph.on_torch}
    return made, sorted(reasons | {graph.note for graph in graphs if graph.note})


_RUNS = {"export": _exported, "compile": _compiled, "gradients": gradients.compiled}


def _without_places(results: Sequence[Any], route: str) -> list[Any]:
    """Results of an op that returns values and their places, without the places."""
    if route != "gradients":
        return list(results[::2])
    return [item for item in results if not isinstance(item, torch.Tensor) or item.dtype.is_floating_point]


def _reference(calls: Calls, route: str) -> list[Any]:
    """The results of `torch.compile` without a compiler."""
    torch._dynamo.reset()
    if route == "gradients":
        return gradients.pulled_back(torch.compile(calls, backend="aot_eager"), calls.tensors)
    torch.manual_seed(0)
    return pytree.tree_leaves(torch.compile(calls, backend="aot_eager", dynamic=True)(*_copies(calls.tensors)))


def _fails_in_torch(calls: Calls, route: str) -> bool:
    """Returns whether `torch.compile` fails without a compiler too."""
    try:
        _reference(calls, route)
    except Exception:  # any error of torch's
        return True
    return False


def _difference(made: Sequence[Any], wanted: Sequence[Any], has_contents: bool = True, slack: float = 1.0) -> str:
    """Returns how results differ from those of torch; empty if they do not."""
    if len(made) != len(wanted):
        return f"{len(made)} results, not {len(wanted)}"
    for ours, theirs in zip(made, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            equal = ours == theirs or (ours != ours and theirs != theirs) or not has_contents
            if not equal and not (isinstance(theirs, float) and abs(ours - theirs) <= 1e-4 * max(1, abs(theirs))):
                return f"{ours!r}, not {theirs!r}"
            continue
        tolerance = TOLERANCES.get(theirs.dtype, 0 if not theirs.dtype.is_floating_point else 1e-2)
        if theirs.dtype.is_complex:
            tolerance = 1e-4
        tolerance *= slack
        if not has_contents:
            ours, theirs = torch.empty_like(ours, device="meta"), torch.empty_like(theirs, device="meta")
        try:
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            return " ".join(str(error).split())[:300]
    return ""
