"""Operands of the dense operators, checked against each other."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.errors import ArgumentError
from emu.mc2.operands import Operands

X1, X2 = np.ones((4, 6), np.float16), np.ones((6, 5), np.float16)


def operands(x1=X1, x2=X2, **more):
    return Operands(**{"x1": x1, "x2": x2, "bias": None, "is_trans_a": False, "is_trans_b": False, **more})  # fmt: skip


def test_a_transposed_factor_is_seen_as_it_is_multiplied():
    left, right = operands(x2=np.ones((5, 6), np.float16), is_trans_b=True).matrices()
    assert (left.shape, right.shape) == ((4, 6), (6, 5))


def test_blocks_of_columns_meet_the_rows_of_the_second_factor():
    left, right = operands(x2=np.ones((12, 5), np.float16)).matrices(blocks=2)
    assert (left.shape, right.shape) == ((4, 6), (12, 5))
    with pytest.raises(ArgumentError, match=r"x2 must have an inner extent of 12, but got 6 \(x1 has shape \(4, 6\), x2 \(6, 5\), is_trans_b is False\)"):  # fmt: skip
        operands().matrices(blocks=2)


def test_weights_of_int8_go_with_halves_where_the_operator_restores_them():
    weight = X2.astype(np.int8)
    assert operands(x2=weight).matrices(weights=True)[1].dtype == np.int8
    with pytest.raises(ArgumentError, match="x2 must have dtype float16, but got int8"):
        operands(x2=weight).matrices()


def test_the_first_factor_is_never_transposed():
    with pytest.raises(ArgumentError, match="is_trans_a must be False, but got True"):
        operands(is_trans_a=True).matrices()


def test_errors_call_scales_as_the_operator_does():
    given = operands(x1_scale=X1[:, 0], scale_names=("pertoken_scale", "dequant_scale"))
    assert set(given.sources()) == {"x1", "x2", "bias", "pertoken_scale", "dequant_scale"}
    with pytest.raises(ArgumentError, match="pertoken_scale must be None for float16"):
        given.row_scales(given.product(X2), 4)
