"""Factorisations of matrices: compiled ones compute what torch computes, without torch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import linalg  # noqa: E402

from .families import check  # noqa: E402


def matrices(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_elimination():
    def solved_by_factors(a):
        factors = linalg.lu_factor(a)
        return linalg.lu_solve(*factors, a.mT, adjoint=True), linalg.lu_solve(*factors, a.mT, left=False)

    functions = {
        "factors": linalg.lu,
        "a vector": lambda a: linalg.solve(a, a[..., 0]),
        "by factors": solved_by_factors,
        "its logarithm": linalg.slogdet,
    }
    check(functions, matrices(2, 3, 3), rtol=1e-9, atol=1e-9)


def test_positive_and_triangular_matrices():
    def solved(a):
        matrix = a @ a.mT + torch.eye(3, dtype=a.dtype)
        factor = linalg.cholesky(matrix, upper=True)
        return factor, torch.cholesky_solve(a, factor, upper=True), linalg.solve_triangular(factor, a, upper=True)

    functions = {"solved": solved, "not positive": lambda a: linalg.cholesky_ex(-torch.diag_embed(a[0]))[1]}
    check(functions, matrices(3, 3), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3)], ids=["tall", "wide"])
def test_reflections(shape):
    functions = {"all": lambda a: linalg.qr(a, "complete"), "packed": torch.geqrf}
    check(functions, matrices(*shape), rtol=1e-9, atol=1e-9)


@pytest.mark.sweep
def test_rotations_and_what_follows_from_them():
    def singular(a):
        u, s, v = linalg.svd(a)
        return u[:, :3] @ torch.diag(s) @ v, u @ u.mT, s

    def eigen(a):
        values, vectors = linalg.eigh(a.mT @ a)
        return values, vectors.abs()

    functions = {
        "singular values": singular,
        "eigenvalues": eigen,
        "inverse": linalg.pinv,
        "exponential": lambda a: torch.matrix_exp(a[:3] * 3),
    }
    check(functions, matrices(4, 3), rtol=1e-8, atol=1e-8)


def test_singular_matrix():
    a = torch.ones(3, 3, dtype=torch.float64)
    functions = {
        "rank": linalg.matrix_rank,
        "values": linalg.svdvals,
        "orthogonal": lambda a: (lambda u: u @ u.mT)(linalg.svd(a)[0]),
    }
    check(functions, a, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("share", [1.0, 0.1], ids=["large diagonal", "small diagonal"])
def test_symmetric_matrices(share):
    def solved(a):
        matrix = a + a.mT - (1 - share) * 2 * torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))
        factor, pivots, info = linalg.ldl_factor_ex(matrix)
        return factor, pivots, info, linalg.ldl_solve(factor, pivots, a[..., :2])

    functions = {
        "factors": solved,
        "exchanged": lambda a: solved(torch.eye(5, dtype=a.dtype).flip(0) / 2 + a * 0),
        "zeros": lambda a: linalg.ldl_factor_ex(a * 0),
    }
    check(functions, matrices(7, 5, 5), rtol=1e-9, atol=1e-9)
