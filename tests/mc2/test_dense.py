"""The dense fused operators, bit for bit as the unfused, and close to fp64, on 2 to 8 PEs."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
from emu import mc2
from emu.comm.errors import ArgumentError
from emu.kernels.matmul import matmul
from emu.mc2 import session

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I8, I32 = (np.dtype(d) for d in (np.float16, np.float32, np.int8, np.int32))


def load(name):
    """Import a file beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load("reference")
SERVERS = ["blocking", "real"] if importlib.util.find_spec("emu.mc2.hccl") else ["blocking"]


def choose_server(name):
    """Have the operators of this PE use the real server, or the blocking one of the tests."""
    if name == "blocking":

        class Blocking(load("reference_hccl").ReferenceHccl):
            def Turns(self):
                return []

        session._hccl_type = lambda: Blocking


def random(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    if dtype in (I8, I32):
        high = 127 if dtype == I8 else 5000
        return rng.integers(-high - 1, high + 1, shape).astype(dtype)
    return rng.standard_normal(shape).astype(F32).astype(dtype)


def same(actual, expected):
    actual = actual.local if isinstance(actual, emu.SymmetricArray) else actual
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    # NaN is NaN, whatever its bits.
    np.testing.assert_array_equal(
        actual.astype(F32), expected.astype(F32), err_msg="differs from the unfused operator"
    )
    assert np.array_equal(np.signbit(actual.astype(F32)), np.signbit(expected.astype(F32)))


def close(actual, expected, absolute, roundings):
    """Compare with fp64: each rounding loses half a unit of the last place of what it rounds."""
    unit = 2.0**-8 if actual.dtype == BF16 else 2.0**-11
    bound = roundings * unit * absolute + 1e-4
    assert np.all(np.abs(actual.astype(np.float64) - expected) <= bound)


class Inputs:
    """What every PE gives, from a seed; each PE can make them all."""

    def __init__(self, seed, n_pes, m, k, n, dtype, *, bias, scales, wide_k=1, out=None):
        pes = range(n_pes)
        self.dtype = out or (F16 if dtype == I8 else dtype)
        self.x1 = [random([seed, 1, p], (m, k), dtype) for p in pes]
        self.x2 = [random([seed, 2, p], (k * wide_k, n), dtype) for p in pes]
        kind = I32 if dtype == I8 else dtype if seed % 2 else F32
        self.bias = [random([seed, 3, p], n, kind) if bias else None for p in pes]
        whole = dtype == I8
        # Products of about the size of 1: k terms of about 5000.
        size = 1 / (5000 * np.sqrt(k * wide_k))
        self.scale = [
            (np.abs(random([seed, 4, p], n if seed % 2 else 1, F32)) + F32.type(0.5))
            * F32.type(size)
            if whole
            else None
            for p in pes
        ]
        self.tokens = [
            np.abs(random([seed, 5, p], (m, 1), F32)) + F32.type(0.5) if whole and scales else None
            for p in pes
        ]
        self.none = [None] * n_pes

    def exact(self, pe, absolute=False):
        """This PE's product in fp64."""
        wide = np.float64
        x1, x2 = self.x1[pe].astype(wide), self.x2[pe].astype(wide)
        bias = wide(0) if self.bias[pe] is None else self.bias[pe].astype(wide)
        scale = wide(1) if self.scale[pe] is None else self.scale[pe].astype(wide)
        tokens = wide(1) if self.tokens[pe] is None else self.tokens[pe].astype(wide)
        if absolute:
            x1, x2, bias = abs(x1), abs(x2), abs(bias)
        return (x1 @ x2 + bias) * scale * tokens


# rows of a PE, k, columns of a PE, how rows are cut
SHAPES = [
    (37, 70, 19, {}),
    (37, 70, 19, {"comm_turn": 3}),
    (37, 70, 19, {"tile_rows": 16}),
    (64, 33, 16, {"comm_turn": 4}),
    (5, 1, 1, {"comm_turn": 5}),
    (1, 130, 7, {}),
]
DTYPES = [F16, BF16, I8]


def cases():
    """Yield a seed, a shape, a dtype and whether there is a bias."""
    for seed, ((*shape, cut), dtype) in enumerate(itertools.product(SHAPES, DTYPES)):
        yield seed, shape, cut, dtype


def weight(x2, seed):
    """Return x2 as it is, as strided columns, or transposed, with the flag that says so."""
    if seed % 3 == 0:
        return x2, False
    if seed % 3 == 1:
        return np.ascontiguousarray(x2.T), True
    return np.repeat(x2, 2, axis=1)[:, ::2], False


def symmetric(world, array):
    target = world.alloc(array.shape, array.dtype)
    target.local[...] = array
    world.barrier()
    return target


# --- all_gather_matmul -------------------------------------------------------------------------


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


def check_trace(trace, me, turns, server):
    """Spans of one PE: products one after the other, and every turn of communication, in order."""
    computed = [span for span in trace if span.kind == "compute"]
    moved = [span for span in trace if span.kind == "communication"]
    for spans in (computed, moved):
        assert all(span.pe == me and span.start_ns <= span.end_ns for span in spans)
    assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(computed))
    if turns:
        assert sorted({span.turn for span in computed} - {-1}) == list(range(turns))
        if server == "real":
            assert [span.turn for span in moved if span.turn >= 0] == list(range(turns))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("n_pes", thorough([2, 4, 8], 4))
def test_all_gather_matmul(n_pes, server):
    assert all(emu.launch(run_all_gather_matmul, n_pes, args=(server,), timeout=20))


# --- matmul_reduce_scatter, matmul_all_reduce ------------------------------------------------------


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


# --- all_to_all_matmul, matmul_all_to_all --------------------------------------------------------


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


# --- what all have in common ---------------------------------------------------------------------


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
