"""Expressions in the text of C."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.comm.tiling.ctext import evaluate, tokens


@settings(deadline=None)
@given(st.recursive(st.integers(0, 2**31).map(str), lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"), max_leaves=8))  # fmt: skip
def test_expressions_have_the_value_that_arithmetic_gives_them(text):
    assert evaluate(tokens(text), {}) == eval(text)
