"""Higher-order operators are compiled, for any size in a range and any number of iterations."""

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

NATIVE = stepwell.Options(cache=False, fallback="error")


class Control(torch.nn.Module):
    def forward(self, x, rounds):
        chosen = torch.cond(x.sum() > 0, lambda x: x.sin().softmax(0), lambda x: x - x.shape[0], (x,))
        last, sums = scan(lambda c, y: (c + y, c * y), x[0].clone(), x)
        products = map_rows(lambda y, z: y * z, x, x[0].clone())
        count, doubled = while_loop(lambda i, y: i < rounds, lambda i, y: (i + 1, y * 2 + i), (0, x))
        return {"cond": chosen, "scan": (last, sums), "map": products, "while": doubled + count}


@pytest.mark.sweep
def test_graphs_within_graphs():
    module = Control()
    x, rounds = torch.randn(3, 4), torch.tensor(3)
    dims = {"x": {0: torch.export.Dim("rows", min=2, max=9)}, "rounds": None}
    run = stepwell.compile(module, (x, rounds), dynamic_shapes=dims, options=NATIVE)
    for rows, rounds in ((3, 3), (9, 0), (2, 7)):
        x = torch.randn(rows, 4)
        for given in (x.abs(), -x.abs()):
            made, wanted = run(given, torch.tensor(rounds)), module(given, torch.tensor(rounds))
            torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


def test_numbers_that_a_loop_carries():
    class Collatz(torch.nn.Module):
        def forward(self, number, x):
            def step(number, count, x):
                return torch.where(number % 2 == 0, number // 2, 3 * number + 1), count + 1, x / 2

            return while_loop(lambda number, count, x: (number != 1).all(), step, (number, 0, x))

    module, x = Collatz(), torch.randn(2)
    run = stepwell.compile(module, (torch.tensor([7]), x), options=NATIVE)
    for start in (7, 1, 27):
        torch.testing.assert_close(run(torch.tensor([start]), x), module(torch.tensor([start]), x))


def test_a_branch_with_an_op_without_code_runs_in_torch():
    class Eigenvalues(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.linalg.eigvals(x).abs(), lambda x: x[0] * 1, (x,)) * 2

    x = torch.randn(3, 3)
    run = stepwell.compile(Eigenvalues(), (x,), options=stepwell.Options(cache=False, fallback="quiet"))
    torch.testing.assert_close(run(x.abs()), Eigenvalues()(x.abs()))
    (found,) = run.fallbacks
    assert found.op_type == "cond"
    assert "linalg_eig" in found.reason
