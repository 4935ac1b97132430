"""Ops whose results have sizes that depend on data are compiled, and what reads them in a piece of its own."""

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

NATIVE = stepwell.Options(cache=False, fallback="error")


class Family(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        return {name: function(*tensors) for name, function in self.functions.items()}


FUNCTIONS = {
    "nonzero": lambda x: torch.nonzero(x > 0),
    "as tuple": lambda x: torch.nonzero(x > 0, as_tuple=True)[1] * 2,
    "nonzero of a scalar": lambda x: torch.nonzero(x[0, 0, 0] * 0),
    "mask": lambda x: x[x > 0],
    "mask over rows": lambda x: x[x[:, 0, 0] > 0] + 1,
    "mask over inner dimensions": lambda x: x[:, x[0] > 0].sum(1),
    "masked select": lambda x: torch.masked_select(x, x[:, :1] > 0),
    "size": lambda x: x[x > 0].shape[0] * x,
}


def test_sizes_that_depend_on_data():
    torch.manual_seed(0)
    module, x = Family(FUNCTIONS), torch.randn(3, 4, 5)
    run = stepwell.compile(module, (x,), options=NATIVE)
    for given in (x, -x, x * 0, x.abs() + 1):
        made, wanted = run(given), module(given)
        for name in FUNCTIONS:
            torch.testing.assert_close(made[name], wanted[name], msg=lambda text, name=name: f"{name}: {text}")


def test_one_that_is_only_returned_is_in_an_artefact(tmp_path):
    module, x = Family({"mask": lambda x: (x * 2)[x > 0]}), torch.randn(3, 4)
    run = stepwell.compile(module, (x,), options=NATIVE)
    run.save(tmp_path / "m.stw")
    made = stepwell.load(tmp_path / "m.stw")(x.numpy())
    torch.testing.assert_close(torch.from_numpy(made), module(x)["mask"])


def test_pieces_are_in_no_artefact(tmp_path):
    run = stepwell.compile(Family({"mask": lambda x: x[x > 0] * 2}), (torch.randn(3, 4),), options=NATIVE)
    with pytest.raises(stepwell.ArtefactError, match="pieces"):
        run.save(tmp_path / "m.stw")


def test_the_backend_of_torch_compile():
    torch._dynamo.reset()
    run = torch.compile(
        lambda x: x[x > 0].sin() + x.sum(), backend="stepwell", fullgraph=True, options={"fallback": "error"}
    )
    x = torch.randn(4, 4)
    with torch.no_grad():
        for given in (x, -x):
            torch.testing.assert_close(run(given), given[given > 0].sin() + given.sum())


def _put(x, *key_and_values):
    *key, values = key_and_values
    made = x.clone()
    made[tuple(key)] = values
    return made


PUTS = {
    "elements": lambda x: _put(x, x > 0, x.flip(0)[x > 0]),
    "rows": lambda x: _put(x, x[:, :, 0] > 0, torch.arange(5.0)),
    "rows of another": lambda x: _put(x, x[:, :, 0] > 0, x.flip(1)[x[:, :, 0] > 0]),
    "columns": lambda x: _put(x, slice(None), x[0, :, 0] == x[0, :, 0], x.flip(1)[:, :, :1]),
    "a single column": lambda x: _put(x, slice(None), x[0] > 0, torch.arange(3.0)[:, None]),
    "none": lambda x: _put(x, x != x, x[:0, 0, 0]),
    "sum": lambda x: x[0].index_put((x[1] == x[1],), x[2].reshape(-1), accumulate=True),
}


@pytest.mark.parametrize("name", PUTS)
def test_values_are_put_where_a_mask_holds(name):
    torch.manual_seed(0)
    module, x = Family({name: PUTS[name]}), torch.randn(3, 4, 5)
    run = stepwell.compile(module, (x,), options=NATIVE)
    for given in (x, -x, x * 0):
        torch.testing.assert_close(run(given)[name], module(given)[name])


def test_the_first_call_selects_nothing():
    module = Family({"put": lambda x: _put(x, x[:, 0] > 0, x[x[:, 0] > 0].softmax(1))})
    run = stepwell.compile(module, (torch.randn(6, 4),), options=NATIVE)
    for given in (-torch.ones(6, 4), torch.ones(6, 4), torch.randn(6, 4)):
        torch.testing.assert_close(run(given)["put"], module(given)["put"])
