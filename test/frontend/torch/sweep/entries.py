"""Entries of the databases that PyTorch tests itself with: ops, modules, higher-order ops and examples for export."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float64)
DIFFERENTIABLE = (torch.float32, torch.float64)
"""Element types of the samples of which gradients are computed."""
UNSET = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_")
"""Ops whose results have no defined contents."""
TIES = ("topk", "sort", "kthvalue", "mode", "median", "nanmedian")
"""Ops that return values and their places, of which several may be right."""


def _without_signs(*results: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Parts of U, S and Vh, or of eigenvalues and vectors, that the choice of vectors leaves the same."""
    if len(results) == 2:
        return results[0], results[1].abs()
    left, values, right = results
    count = values.shape[-1]
    return left[..., :count].abs(), values, right[..., :count, :].abs()


def _sorted_by_places(operand: torch.Tensor, places: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    return torch.take_along_dim(operand, places, dim) if operand.dim() else operand


DEFINED: dict[str, Callable[..., Any]] = {
    "argsort": lambda op, x, *args, **kwargs: _sorted_by_places(x, op(x, *args, **kwargs), *args, **kwargs),
    **dict.fromkeys(
        ("svd", "linalg.svd", "linalg.eigh"),
        lambda op, *args, **kwargs: _without_signs(*op(*args, **kwargs)),
    ),
}
"""Functions that return what is defined of the results of ops that leave a choice."""


SLACK = {"matrix_exp": 10.0}
GRADIENT_SLACK = {
    "logcumsumexp": 100.0,  # differences of results of 10,000, whose last digits are 0.001
    "native_layer_norm": 10.0,  # the reciprocal of a deviation of 0, at most 316, times a difference of equal numbers
}


@dataclass(frozen=True)
class Sample:
    """A call.

    Attributes:
        name: what it is called in reports.
        function: a function or a module.
        args: its arguments by position.
        kwargs: its arguments by name.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Calls(torch.nn.Module):
    """Several calls as one module, which takes the tensors among their arguments."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.functions = [item.function for item in samples]
        self.modules_called = torch.nn.ModuleList(f for f in self.functions if isinstance(f, torch.nn.Module))
        self.arguments, self.tensors = [], []
        for item in samples:
            leaves, spec = pytree.tree_flatten((item.args, item.kwargs))
            self.tensors += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            self.arguments.append(([None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves], spec))

    def forward(self, *tensors: torch.Tensor) -> list[Any]:
        """Returns the results of the calls."""
        place, made = 0, []
        for function, (leaves, spec) in zip(self.functions, self.arguments, strict=True):
            given = []
            for leaf in leaves:
                given.append(tensors[place] if leaf is None else leaf[0])
                place += leaf is None
            args, kwargs = pytree.tree_unflatten(given, spec)
            made.append(function(*args, **kwargs))
        return made


@dataclass(frozen=True)
class Entry:
    """An entry of a database.

    Attributes:
        name: the database and the name in it, such as "op/add".
        samples: makes its samples.
        has_contents: whether the contents of its results are defined.
        has_ties: whether every second result is the place of one of several equal elements, which torch leaves open.
        dynamic_shapes: the argument of `torch.export.export`, for an entry of one sample.
        slack: a factor of the tolerances, for an op of which torch's own rounding errors are greater.
        gradient_slack: the same for its gradients.
        differentiable: makes samples whose tensors require gradients; None if the entry has no derivative.
    """

    name: str
    samples: Callable[[], list[Sample]]
    has_contents: bool = True
    has_ties: bool = False
    dynamic_shapes: Any = None
    slack: float = 1.0
    gradient_slack: float = 1.0
    differentiable: Callable[[], list[Sample]] | None = None


def entries(count: int, dtypes: Sequence[torch.dtype] = DTYPES) -> Iterator[Entry]:
    """Returns all entries.

    Args:
        count: the number of samples for each element type.
        dtypes: the element types of ops.
    """
    from torch.testing._internal import common_methods_invocations
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.hop_db import hop_db

    # It seeds within a call, which no graph records.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    for kind, infos in (("op", op_db), ("hop", hop_db)):
        for info in infos:
            name = f"{kind}/{info.name}" + f".{info.variant_test_name}" * bool(info.variant_test_name)
            defined = info.name not in UNSET, info.name in TIES
            slack = SLACK.get(info.name, 1.0)
            smooth = [dtype for dtype in DIFFERENTIABLE if dtype in dtypes and _has_gradient(info, dtype)]
            yield Entry(
                name,
                lambda info=info: _of_op(info, count, dtypes),
                *defined,
                slack=slack,
                gradient_slack=GRADIENT_SLACK.get(info.name, slack),
                differentiable=(lambda info=info, smooth=smooth: _smooth(info, count, smooth)) if smooth else None,
            )
    for info in module_db:
        yield Entry(f"module/{info.name}", lambda info=info: _of_module(info, count))
    yield from _examples()


def _of_op(info: Any, count: int, dtypes: Sequence[torch.dtype]) -> list[Sample]:
    found = []
    own = [dtype for dtype in dtypes if dtype in info.dtypes]
    for dtype in own or [torch.complex64]:
        if dtype in info.dtypes:
            torch.manual_seed(0)
            try:
                made = list(itertools.islice(info.sample_inputs("cpu", dtype), 200))
            except ValueError:  # some samples need gradients, which integers have not
                continue
            for number, item in _spread(made, count):
                name = f"{str(dtype).removeprefix('torch.')} {number}"
                function = functools.partial(DEFINED[info.name], info.op) if info.name in DEFINED else info.op
                found.append(Sample(name, function, (item.input, *item.args), item.kwargs))
    return found


def _has_gradient(info: Any, dtype: torch.dtype) -> bool:
    return getattr(info, "supports_autograd", False) and dtype in info.supported_backward_dtypes("cpu")


def _smooth(info: Any, count: int, dtypes: Sequence[torch.dtype]) -> list[Sample]:
    """Samples of an op that require gradients, of results from which the database removes choices such as signs."""
    found = []
    for dtype in dtypes:
        torch.manual_seed(0)
        made = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=True), 200))
        for number, item in _spread(made, count):
            function = functools.partial(_processed, info.op, item.output_process_fn_grad)
            name = f"{str(dtype).removeprefix('torch.')} {number}"
            found.append(Sample(name, function, (item.input, *item.args), item.kwargs))
    return found


def _processed(op: Callable[..., Any], process: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return process(op(*args, **kwargs))


def _spread(made: Sequence[Any], count: int) -> list[tuple[int, Any]]:
    """Some samples with their numbers, from all over the list: the first ones are often scalars and the like."""
    return list(enumerate(made))[:: max(len(made) // count, 1)][:count]


def _of_module(info: Any, count: int) -> list[Sample]:
    torch.manual_seed(0)
    made = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    found = []
    for number, item in enumerate(itertools.islice(made, count)):
        module = info.module_cls(*item.constructor_input.args, **item.constructor_input.kwargs).eval()
        given = item.forward_input
        found.append(Sample(str(number), module, tuple(given.args), given.kwargs))
    return found


def _examples() -> Iterator[Entry]:
    from torch._export.db.examples import all_examples

    for name, case in all_examples().items():
        sample = Sample("example", case.model, tuple(case.example_args), dict(case.example_kwargs))
        yield Entry(f"export/{name}", lambda sample=sample: [sample], dynamic_shapes=case.dynamic_shapes)
