"""Products with reduced partial sums, bit for bit as the unfused operators, on 2 to 8 PEs."""

from __future__ import annotations

import mc2_reference as reference
import numpy as np
import pytest
from mc2_dense import (
    BF16,
    F16,
    F32,
    I8,
    SERVERS,
    Inputs,
    cases,
    check_trace,
    choose_server,
    close,
    random,
    same,
    symmetric,
    weight,
)
from variants import thorough

import emu
from emu import mc2


def total(given, pes, more=None):
    return sum(given.exact(p) + (0 if more is None else more[p].astype(float)) for p in range(pes))


def sizes(given, pes, more=None):
    return sum(
        given.exact(p, absolute=True) + (0 if more is None else abs(more[p].astype(float)))
        for p in range(pes)
    )


def run_matmul_reduce_scatter(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, (block, k, n), cut, dtype in cases():
        m = block * pes
        given = Inputs(seed, pes, m, k, n, dtype, bias=seed % 4 != 0, scales=seed % 2)
        expected = reference.matmul_reduce_scatter(
            given.x1, given.x2, given.bias, given.scale, given.tokens, given.none, given.dtype
        )
        w, transposed = weight(given.x2[me], seed)
        trace = []
        y = mc2.matmul_reduce_scatter(
            given.x1[me], w, given.bias[me], is_trans_b=transposed, x1_scale=given.tokens[me],
            x2_scale=given.scale[me], trace=trace, **cut,
        )  # fmt: skip
        same(y, expected[me])
        rows = slice(me * block, (me + 1) * block)
        close(y, total(given, pes)[rows], sizes(given, pes)[rows], 3)
        check_trace(trace, me, cut.get("comm_turn"), server)
    return True


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_matmul_reduce_scatter(n_pes, server):
    assert all(emu.launch(run_matmul_reduce_scatter, n_pes, args=(server,), timeout=20))


def run_matmul_all_reduce(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for seed, (m, k, n), cut, dtype in cases():
        given = Inputs(seed, pes, m, k, n, dtype, bias=seed % 4 != 0, scales=seed % 2)
        more = [random([seed, 6, p], (m, n), given.dtype) for p in range(pes)]
        more = more if seed % 2 else None
        expected = reference.matmul_all_reduce(
            given.x1, given.x2, given.bias, given.scale, given.tokens, more or given.none,
            given.dtype,
        )[me]  # fmt: skip
        w, transposed = weight(given.x2[me], seed)
        arguments = {
            "bias": given.bias[me], "is_trans_b": transposed, "dequant_scale": given.scale[me],
            "pertoken_scale": given.tokens[me], **cut,
        }  # fmt: skip
        y = symmetric(world, np.zeros_like(expected)) if seed % 2 else None
        got = mc2.matmul_all_reduce(given.x1[me], w, x3=more and more[me], y=y, **arguments)
        assert y is None or got is y
        same(got, expected)
        got = got.local if y is not None else got
        close(got, total(given, pes, more), sizes(given, pes, more), 3)
        if more is None:
            residual, gamma = random([seed, 7], (m, n), given.dtype), random([seed, 8], n, F32)
            trace = []
            y, normal = mc2.matmul_all_reduce_add_rms_norm(
                given.x1[me], w, residual, gamma, epsilon=1e-5, trace=trace, **arguments
            )
            wanted = reference.add_rms_norm(expected, residual, gamma, 1e-5)
            same(y, wanted[0])
            same(normal, wanted[1])
            wide = y.astype(np.float64)
            exact = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gamma
            close(normal, exact, abs(exact), 2)
    return True


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_matmul_all_reduce(n_pes, server):
    assert all(emu.launch(run_matmul_all_reduce, n_pes, args=(server,), timeout=20))


def run_antiquant(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    m, k, n = 37, 96, 19
    for dtype, shape, group, transposed in (
        (F16, 1, 0, False),
        (BF16, n, 0, True),
        (F16, (3, n), 32, False),
        (BF16, (6, n), 16, True),
    ):
        x1 = [random([1, p], (m, k), dtype) for p in range(pes)]
        x2 = [random([2, p], (k, n), I8) for p in range(pes)]
        scale = random([3], shape, dtype) * dtype.type(0.01)
        offset = None if shape == 1 else random([4], shape, F32) * F32.type(5)
        rows = np.repeat(scale, group, 0) if group else scale
        shift = 0 if offset is None else np.repeat(offset, group, 0) if group else offset
        restored = [
            reference.rounded((w.astype(F32) + F32.type(1) * shift) * rows.astype(F32), dtype)
            for w in x2
        ]
        none = [None] * pes
        expected = reference.matmul_all_reduce(x1, restored, none, none, none, none, dtype)[me]
        w = np.ascontiguousarray(x2[me].T) if transposed else x2[me]
        y = mc2.matmul_all_reduce(
            x1[me], w, is_trans_b=transposed, antiquant_scale=np.atleast_1d(scale),
            antiquant_offset=offset, antiquant_group_size=group, comm_turn=2,
        )  # fmt: skip
        same(y, expected)
    return True


@pytest.mark.parametrize("server", SERVERS)
def test_weights_of_int8_are_restored_first(server):
    assert all(emu.launch(run_antiquant, 2, args=(server,), timeout=20))
