"""Products before and after an all-to-all, bit for bit as the unfused operators, on 2 to 8 PEs."""

from __future__ import annotations

import mc2_reference as reference
import numpy as np
import pytest
from mc2_dense import (
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


def run_all_to_all_matmul(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, (block, k, n), cut, dtype in cases():
        given = Inputs(
            seed, pes, block * pes, k, n, dtype, bias=seed % 4 != 0, scales=False, wide_k=pes
        )
        expected = reference.all_to_all_matmul(
            given.x1, given.x2, given.bias, given.scale, given.dtype
        )[me]
        w, transposed = weight(given.x2[me], seed)
        x = symmetric(world, given.x1[me]) if seed % 2 else given.x1[me]
        trace = []
        y = mc2.all_to_all_matmul(
            x,
            w,
            given.bias[me],
            is_trans_b=transposed,
            x2_scale=given.scale[me],
            trace=trace,
            **cut,
        )
        same(y, expected)
        rows = slice(me * block, (me + 1) * block)
        beside = Inputs.__new__(Inputs)
        vars(beside).update(vars(given), x1=[np.hstack([x[rows] for x in given.x1])] * pes)
        close(y, beside.exact(me), beside.exact(me, absolute=True), 2)
        check_trace(trace, me, cut.get("comm_turn"), server)
    return True


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_all_to_all_matmul(n_pes, server):
    assert all(emu.launch(run_all_to_all_matmul, n_pes, args=(server,), timeout=20))


def run_matmul_all_to_all(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, (m, k, columns), cut, dtype in cases():
        n = columns * pes
        given = Inputs(seed, pes, m, k, n, dtype, bias=seed % 4 != 0, scales=seed % 2)
        expected = reference.matmul_all_to_all(
            given.x1, given.x2, given.bias, given.scale, given.tokens, given.dtype
        )[me]
        w, transposed = weight(given.x2[me], seed)
        trace = []
        y = mc2.matmul_all_to_all(
            given.x1[me], w, given.bias[me], is_trans_b=transposed, x1_scale=given.tokens[me],
            x2_scale=given.scale[me], trace=trace, **cut,
        )  # fmt: skip
        same(y, expected)
        part = slice(me * columns, (me + 1) * columns)
        exact = np.concatenate([given.exact(p)[:, part] for p in range(pes)])
        absolute = [given.exact(p, absolute=True)[:, part] for p in range(pes)]
        close(y, exact, np.concatenate(absolute), 2)
        check_trace(trace, me, cut.get("comm_turn"), server)
    return True


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_matmul_all_to_all(n_pes, server):
    assert all(emu.launch(run_matmul_all_to_all, n_pes, args=(server,), timeout=20))
