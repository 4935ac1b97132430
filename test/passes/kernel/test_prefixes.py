"""Live prefixes of tensors, as the maximum of a few terms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from stepwell.passes.kernel.prefixes import Prefix, divided, larger, scaled
from stepwell.sizes.expressions import evaluate

_STEPS = st.lists(
    st.tuples(st.sampled_from(("scale", "divide", "join")), st.integers(1, 6), st.integers(-5, 5)), max_size=12
)


@given(_STEPS, st.integers(1, 40), st.integers(1, 40))
def test_terms_compute_the_same_as_the_steps(steps: list[tuple[str, int, int]], n: int, m: int):
    sizes, prefix, wanted = {"n": n, "m": m}, "n", n
    for kind, factor, offset in steps:
        if kind == "scale":
            prefix, wanted = scaled(prefix, factor, offset), wanted * factor + offset
        elif kind == "divide":
            prefix, wanted = divided(prefix, factor), -(-wanted // factor)
        else:
            prefix, wanted = larger(prefix, scaled("m", factor, offset)), max(wanted, m * factor + offset)
    assert prefix is not None and evaluate(prefix, sizes) == wanted


def test_terms_of_a_kind_are_merged():
    assert larger("n", scaled("n", 1, 2)) == ["+", "n", 2] == larger(["+", "n", 2], ["+", ["+", "n", 1], 1])
    assert divided(scaled("n", 12, 0), 4) == ["*", "n", 3]
    assert larger(3, 5) == 5
    assert larger("n", None) is scaled(None, 2, 1) is divided(None, 2) is None


def test_many_readers_need_no_more_terms():
    needed: list[Prefix] = ["n"]
    for _ in range(60):
        found: Prefix = "n"
        for reader in needed:
            found = larger(found, scaled(reader, 1, 1))
        needed.append(found)
    assert needed[-1] == ["+", "n", 60]
