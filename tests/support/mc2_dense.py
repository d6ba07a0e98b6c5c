"""Operands and comparisons that the tests of the dense operators share."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
from mc2_reference_hccl import ReferenceHccl

import emu
from emu.mc2 import session

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I8, I32 = (np.dtype(d) for d in (np.float16, np.float32, np.int8, np.int32))


SERVERS = ["blocking", "real"]


def choose_server(name):
    """Have the operators of this PE use the real server, or the blocking one of the tests."""
    if name == "blocking":

        class Blocking(ReferenceHccl):
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
