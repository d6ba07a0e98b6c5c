"""The dense operators together: values that are not finite, groups, wrong arguments and errors."""

from __future__ import annotations

import mc2_reference as reference
import numpy as np
import pytest
from mc2_dense import BF16, F16, F32, I8, SERVERS, choose_server, random, same

import emu
from emu import mc2
from emu.comm.errors import ArgumentError
from emu.kernels.matmul import matmul


def run_special_values(server):
    choose_server(server)
    world = emu.world()
    me, pes = world.my_pe, world.n_pes
    for dtype in (F16, BF16):
        x1 = [random([1, p], (6, 8), dtype) for p in range(pes)]
        x2 = [random([2, p], (8, 6), dtype) for p in range(pes)]
        x1[0][0, 0], x1[1][3, 1] = np.nan, np.inf
        x2[0][2, 4] = -np.inf
        x1[0][5], x2[0][:, 5] = 60000, 60000  # too large for fp16, not for bf16
        none = [None] * pes
        y, _ = mc2.all_gather_matmul(x1[me], x2[me], comm_turn=2)
        same(y, reference.all_gather_matmul(x1, x2, none, none, none, dtype)[me][0])
        arguments = (x1, x2, none, none, none, none, dtype)
        y = mc2.matmul_reduce_scatter(x1[me], x2[me], comm_turn=2)
        same(y, reference.matmul_reduce_scatter(*arguments)[me])
        y = mc2.matmul_all_reduce(x1[me], x2[me], comm_turn=2)
        expected = reference.matmul_all_reduce(*arguments)[me]
        same(y, expected)
        assert np.isnan(y[0].astype(F32)).all()
        residual, gamma = np.zeros_like(y), np.ones(6, F32)
        got = mc2.matmul_all_reduce_add_rms_norm(x1[me], x2[me], residual, gamma, comm_turn=2)
        for a, b in zip(got, reference.add_rms_norm(expected, residual, gamma, 1e-6), strict=True):
            same(a, b)
        y = mc2.matmul_all_to_all(x1[me], x2[me], comm_turn=2)
        same(y, reference.matmul_all_to_all(x1, x2, none, none, none, dtype)[me])
    return True


@pytest.mark.parametrize("server", SERVERS)
def test_what_is_not_finite_goes_through(server):
    assert all(emu.launch(run_special_values, 2, args=(server,), timeout=20))


def run_in_groups(server):
    """Two groups at work at once, and arrays given by the caller, call after call."""
    choose_server(server)
    world = emu.world()
    members = [world.my_pe % 2, world.my_pe % 2 + 2][:: 1 if world.my_pe % 2 else -1]
    group = world.group(f"pair {world.my_pe % 2}", members)
    y = np.empty((2 * 24, 10), F16)
    gathered = group.alloc((2 * 24, 12), F16)
    for seed in range(3):
        x1 = [random([seed, 1, p], (24, 12), F16) for p in members]
        x2 = random([seed, 2, world.my_pe], (12, 10), F16)
        got = mc2.all_gather_matmul(
            x1[group.my_pe], x2, group=group if seed else group.name, rank_size=2, y=y,
            gather_out=gathered, comm_turn=seed + 1,
        )  # fmt: skip
        assert got[0] is y
        assert got[1] is gathered
        same(gathered, np.concatenate(x1))
        same(y, matmul(np.concatenate(x1), x2))
        # Scratch that grows from call to call.
        n = 10 * 40**seed
        wide = [random([seed, 3, p], (12, n), F16) for p in members]
        out = mc2.matmul_all_reduce(x1[group.my_pe], wide[group.my_pe], group=group)
        same(out, reference.reduced([matmul(a, b) for a, b in zip(x1, wide, strict=True)]))
    return True


@pytest.mark.parametrize("server", SERVERS)
def test_groups_work_side_by_side(server):
    assert all(emu.launch(run_in_groups, 4, args=(server,), timeout=20))


def refused(pattern, call, *arguments, **keywords):
    with pytest.raises(ArgumentError, match=pattern):
        call(*arguments, **keywords)


def run_refusals():
    choose_server("blocking")
    x1, x2 = np.ones((8, 6), F16), np.ones((6, 4), F16)
    q1, q2 = np.ones((8, 6), I8), np.ones((6, 4), I8)
    ag, rs, ar = mc2.all_gather_matmul, mc2.matmul_reduce_scatter, mc2.matmul_all_reduce
    to_all, from_all = mc2.all_to_all_matmul, mc2.matmul_all_to_all
    norm = mc2.matmul_all_reduce_add_rms_norm
    for call in (ag, rs, ar, from_all):
        refused(r"x1 must be an ndarray or a SymmetricArray, but got list", call, [[1]], x2)
        refused(r"x1 must have 2 axes, but got shape \(8,\)", call, x1[:, 0], x2)
        refused(r"x1 must have elements, but got shape \(0, 6\)", call, x1[:0], x2)
        refused(r"x1 must have one of the dtypes .*, but got float32", call, x1.astype(F32), x2)
        refused(r"x2 must have .* float16.*, but got bf", call, x1, x2.astype(BF16))
        refused(r"x2 must have an inner extent of 6, but got 4", call, x1, x2, is_trans_b=True)
        refused(r"is_trans_a must be False, but got True", call, x1, x2, is_trans_a=True)
        refused(
            r"bias must be a vector of 4 elements, but got shape \(5,\)", call, x1, x2, x1[0, :5]
        )
        refused(r"bias must have one of the dtypes float16, float32, but", call, x1, x2, q1[0, :4])
        refused(r"_scale must be given for int8, but got None", call, q1, q2)
        refused(r"comm_turn must be at least 0, but got -1", call, x1, x2, comm_turn=-1)
        refused(r"comm_turn must be in \[0, \d\] for \d rows, but got 9", call, x1, x2, comm_turn=9)
        refused(r"tile_rows must be in \[1, \d\], but got 0", call, x1, x2, tile_rows=0)
        refused(r"comm_turn must be 0 with tile_rows", call, x1, x2, comm_turn=2, tile_rows=1)
        refused(r"rank_size must be 0 or 2, the size of group", call, x1, x2, rank_size=3)
        refused(r"group must have 1 to 128 characters, but got 129", call, x1, x2, group="g" * 129)
        refused(r"group must be a Group, its name or None, but got int", call, x1, x2, group=3)
        refused(r"group 'other' is not known", call, x1, x2, group="other")
        refused(r"y must have shape", call, x1, x2, y=np.empty((1, 1), F16))
        refused(r"y_dtype must be float16 or bfloat16, but got float32", call, x1, x2, y_dtype=F32)
        limits = mc2.HardwareLimits.A2
        refused(r"k must be in \[256, 65535\) on A2, but got 6", call, x1, x2, limits=limits)
    deep1, deep2 = np.ones((40, 256), F16), np.ones((256, 4), F16)
    refused(r"comm_turn must be at most 16 on A2, but got 20", ag, deep1, deep2, limits=limits,
            comm_turn=20)  # fmt: skip
    refused(r"at most 255 equal turns", ar, np.ones((300, 6), F16), x2, comm_turn=300)
    refused(r"gather_index must be 0, but got 1", ag, x1, x2, gather_index=1)
    refused(r"gather_out must be None where is_gather_out", ag, x1, x2, is_gather_out=False,
            gather_out=np.empty((16, 6), F16))  # fmt: skip
    memory = np.ones((16, 6), F16)
    refused(r"gather_out must not share memory with x1", ag, memory[:8], x2, gather_out=memory)
    refused(r"y must have dtype float16, but got float32", ag, x1, x2, y=np.empty((16, 4), F32))
    refused(r"y must be C-contiguous", ag, x1, x2, y=np.empty((4, 16), F16).T)
    refused(r"x1_scale must be None for float16", ag, x1, x2, x1_scale=np.ones(8, F32))
    refused(r"x2_scale must be None for float16", ag, x1, x2, x2_scale=np.ones(4, F32))
    refused(r"m must be divisible by the group's size of 2, but got 7", rs, x1[:7], x2)
    refused(r"n must be divisible by the group's size of 2, but got 3", from_all, x1, x2[:, :3])
    refused(r"x2 must have an inner extent of 12, but got 6", to_all, x1, x2)
    refused(r"reduce_op must be 'sum', but got 'max'", rs, x1, x2, reduce_op="max")
    refused(r"x3 must have shape \(8, 4\), but got \(8, 6\)", ar, x1, x2, x3=x1)
    refused(r"antiquant_scale must be given for int8 weights, but got None", ar, x1, q2)
    refused(r"antiquant_scale, .* must be left out", ar, x1, x2, antiquant_scale=np.ones(1, F32))
    refused(r"antiquant_group_size must be 0 or a divisor of k of 6, but got 4", ar, x1, q2,
            antiquant_scale=np.ones((1, 4), F32), antiquant_group_size=4)  # fmt: skip
    refused(r"antiquant_scale must be an array of shape \(3, 4\) where antiquant_group_size is 2", ar, x1, q2,
            antiquant_scale=np.ones((1, 4), F32), antiquant_group_size=2)  # fmt: skip
    residual = np.ones((8, 4), F16)
    refused(r"residual must have shape \(8, 4\)", norm, x1, x2, residual[:2], x1[0, :4])
    refused(r"gamma must be a vector of 4 elements", norm, x1, x2, residual, x1[0, :3])
    refused(
        r"epsilon must be at least 0 and fit in fp32, but got -1",
        norm,
        x1,
        x2,
        residual,
        x1[0, :4],
        epsilon=-1,
    )
    return True


def test_bad_arguments_are_refused():
    assert all(emu.launch(run_refusals, 2, timeout=20))


def run_one_that_raises():
    choose_server(SERVERS[-1])
    x1 = np.ones((8, 6), F16)
    bad = emu.world().my_pe == 1
    mc2.all_gather_matmul(x1, np.ones((5 if bad else 6, 4), F16))


def test_an_error_on_one_pe_stops_the_others():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run_one_that_raises, 4, timeout=20)
    (error,) = caught.value.subgroup(ArgumentError).exceptions
    assert error.pe == 1
    assert "x2 must have an inner extent of 6, but got 5" in str(error)
