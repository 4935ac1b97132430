"""Ops on lists of tensors, and the steps of PyTorch's optimisers that use them, are native."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.frontend.torch.list_rules import LIST_RULES  # noqa: E402

VALUES = {"List[number]": [0.3, 2.0], "number": 0.3, "Tensor": torch.tensor(0.7)}
"""An argument of each type that is not a list of tensors."""


def arguments_of(op):
    name, kinds = op._schema.name, [str(item.type) for item in op._schema.arguments if not item.kwarg_only]
    shapes = [(3, 3), (3, 3)] if name.endswith("_mm") else [(3,), (2, 2)]
    optional = [item.name for item in op._schema.arguments if item.has_default_value() and item.name != "value"]
    assert not set(optional) - {"alpha", "dtype", "memory_format", "non_blocking", "ord"}
    made = []
    for item, kind in zip(op._schema.arguments, kinds, strict=False):
        if item.name in optional:
            continue
        if kind == "List[Tensor]":
            made.append([torch.rand(shape) * 0.9 + 0.05 for shape in shapes])
        else:
            made.append(torch.tensor([0.3, 0.7]) if kind == "Tensor" and "addc" in name else VALUES[kind])
    return made


@pytest.mark.parametrize("op", LIST_RULES, ids=str)
def test_a_rule_computes_what_its_op_does(op):
    torch.manual_seed(0)
    given = arguments_of(op)
    has_factor = any(item.name == "alpha" for item in op._schema.arguments)
    for named in [{}, {"alpha": 2}] if has_factor else [{}]:
        for made, wanted in zip(LIST_RULES[op](*given, **named), op(*given, **named), strict=True):
            torch.testing.assert_close(made, wanted)


OPTIMIZERS = {
    "sgd": lambda given: torch.optim.SGD(given, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=True),
    "adamw": lambda given: torch.optim.AdamW(given, 1e-2, foreach=True),
    "adam, one by one": lambda given: torch.optim.Adam(given, 1e-2, amsgrad=True),
    "rmsprop": lambda given: torch.optim.RMSprop(given, 1e-2, centered=True, momentum=0.5, foreach=True),
    "adagrad": lambda given: torch.optim.Adagrad(given, 1e-2, foreach=True),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyTorch about itself, at its first step
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer_is_native_and_right(name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    other, x = copy.deepcopy(module), torch.randn(6, 4)
    ours, theirs = (OPTIMIZERS[name](item.parameters()) for item in (module, other))
    step = torch.compile(ours.step, backend="stepwell", options={"fallback": "error", "cache": False})
    for _ in range(4):
        for run, take in ((module, step), (other, theirs.step)):
            run.zero_grad()
            run(x).square().mean().backward()
            take()
    for made, wanted in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
