"""all_gather_matmul, bit for bit as the unfused operator and close to fp64, on 2 to 8 PEs."""

from __future__ import annotations

import mc2_reference as reference
import numpy as np
import pytest
from mc2_dense import (
    BF16,
    I8,
    SERVERS,
    Inputs,
    cases,
    check_trace,
    choose_server,
    close,
    same,
    symmetric,
    weight,
)
from variants import thorough

import emu
from emu import mc2


def run_all_gather_matmul(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, (m, k, n), cut, dtype in cases():
        out = BF16 if dtype == I8 and seed % 2 else None
        given = Inputs(seed, pes, m, k, n, dtype, bias=seed % 4 != 0, scales=seed % 2, out=out)
        expected = reference.all_gather_matmul(
            given.x1, given.x2, given.bias, given.scale, given.tokens, given.dtype
        )[me]
        w, transposed = weight(given.x2[me], seed)
        x = symmetric(world, given.x1[me]) if seed % 2 else given.x1[me]
        trace = []
        y, gathered = mc2.all_gather_matmul(
            x, w, given.bias[me], is_trans_b=transposed, x1_scale=given.tokens[me],
            x2_scale=given.scale[me], y_dtype=out, is_gather_out=seed % 3 != 2, trace=trace, **cut,
        )  # fmt: skip
        same(y, expected[0])
        if seed % 3 != 2:
            same(gathered, expected[1])
        else:
            assert gathered is None
        wide = [Inputs.__new__(Inputs) for _ in range(pes)]
        for pe, one in enumerate(wide):
            vars(one).update(vars(given), x1=[given.x1[pe]] * pes, tokens=[given.tokens[pe]] * pes)
        exact = np.concatenate([one.exact(me) for one in wide])
        close(y, exact, np.concatenate([one.exact(me, absolute=True) for one in wide]), 2)
        check_trace(trace, me, cut.get("comm_turn"), server)
    return True


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_all_gather_matmul(n_pes, server):
    assert all(emu.launch(run_all_gather_matmul, n_pes, args=(server,), timeout=20))
