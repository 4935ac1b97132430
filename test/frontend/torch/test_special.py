"""Special functions: compiled ones compute what torch computes, without torch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .families import check  # noqa: E402

COMMON = {name: getattr(torch, name) for name in ("digamma", "erfinv", "lgamma")}
COMMON["erfcx"] = torch.special.erfcx
OTHERS = {"erfc": torch.erfc, "i0": torch.i0} | {
    name: getattr(torch.special, name)
    for name in (
        *("airy_ai", "bessel_j0", "bessel_y0", "bessel_y1", "i0e", "i1", "i1e", "log_ndtr", "modified_bessel_k0"),
        *("ndtri", "scaled_modified_bessel_k1", "spherical_bessel_j0"),
    )
}


@pytest.mark.parametrize("functions", [COMMON, pytest.param(OTHERS, marks=pytest.mark.sweep)], ids=["common", "others"])
def test_functions(functions):
    x = torch.tensor([0.0, 1.0, -1.0, -2.5, 0.03, 0.4, 0.97, -0.8, 3.7, -8.6, 9.0, 47.0, float("inf"), float("nan")])
    check(functions, x.double(), rtol=1e-9, atol=1e-9)


@pytest.mark.sweep
def test_derivatives_of_digamma_and_shares_of_the_gamma_integral():
    functions = {
        "second": lambda a, x: torch.polygamma(2, x),
        "first": lambda a, x: torch.polygamma(1, x),
        "zeta": torch.special.zeta,
        "below": torch.igamma,
        "above": torch.igammac,
    }
    a = torch.tensor([0.3, 2.0, 4.0, 1.0, 40.0, 0.0, 2.0, 3.0], dtype=torch.float64)
    x = torch.tensor([0.7, 1.3, -2.5, 9.0, 44.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    check(functions, a, x, rtol=1e-8, atol=1e-8)


def test_polynomials_of_degrees_that_are_data():
    names = ("chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w", "hermite_polynomial_he")
    names += ("laguerre_polynomial_l", "legendre_polynomial_p", "hermite_polynomial_h")
    functions = {name: getattr(torch.special, name) for name in names}
    functions["of a known degree"] = lambda x, n: torch.special.chebyshev_polynomial_u(x, 4)
    x = torch.tensor([0.3, -1.7, 1.0, -1.0, 0.2, 2.0])
    check(functions, x, torch.tensor([7, 3, 5, 1, 0, -1]))
