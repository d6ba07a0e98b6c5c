"""Conversions in native code against the reference interpreter, bit for bit."""

import numpy as np
import pytest
from tile_samples import HASWELL, assert_same, reference, samples
from variants import thorough

from emu.tile.ops import Code
from emu.tile.types import (
    DTYPES,
    F16,
    F32,
    F64,
    I1,
    I32,
    I64,
    U64,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("source", thorough(list(DTYPES.values()), I1, I32, U64, F16, F32), ids=str)
def test_casts_round_once(compiled, make_case, source):
    check_casts(compiled, make_case, source, None)


@pytest.mark.parametrize("source", thorough([I1, I32, I64, U64, F16, F32, F64], I64, F32), ids=str)
def test_casts_round_once_without_avx512(compiled, make_case, source):
    check_casts(compiled, make_case, source, HASWELL)


def check_casts(compiled, make_case, source, target):
    type_ = type(make_case(Code.CAST, source))
    cases = [
        type_(Code.CAST, (source,), result, {"rounding": rounding})
        for result in DTYPES.values()
        for rounding in ("rtne", "rtz")
        if rounding == "rtne" or (source.is_float and result.is_float)
    ]
    x = cast_samples(source)
    for case, function in zip(cases, compiled(cases, 32, target), strict=True):
        label = f"CAST of {source} to {case.result}, {case.attributes}"
        assert_same(function(x), reference(case, x), label, [x])


def cast_samples(source):
    """Values of a dtype, among them ties and near ties of every narrower one."""
    x = samples(source)
    if source.bits <= 16:
        return x
    if not source.is_float:
        one = source.numpy.type(1)
        powers = one << np.arange(source.bits - 1).astype(source.numpy)
        ties = [powers + powers // n * m for n, m in ((256, 1), (128, 3), (512, 3), (8, 3))]
        ties = np.concatenate(ties).astype(source.numpy)
        return np.concatenate([x, powers, ties, ties + one, ties - one])
    narrow = [d for d in DTYPES.values() if d.is_float and d.bits <= 16]
    values = []
    for dtype in narrow:
        every = samples(dtype)[:: 1 if dtype.bits == 8 else 17].astype(np.float64)
        every = np.sort(every[np.isfinite(every)])
        ties = ((every[1:] + every[:-1]) / 2).astype(source.numpy)
        zero, infinity = source.numpy.type(0), source.numpy.type(np.inf)
        values += [every.astype(source.numpy), ties]
        values += [np.nextafter(ties, zero), np.nextafter(ties, infinity)]
    return np.concatenate([x, *values])


def test_bitcasts_keep_the_bits(compiled, make_case):
    type_ = type(make_case(Code.CAST, F32))
    dtypes = [d for d in DTYPES.values() if d is not I1]
    couples = [(a, b) for a in dtypes for b in dtypes if a.bits == b.bits]
    cases = [type_(Code.BITCAST, (a,), b) for a, b in couples]
    for case, function in zip(cases, compiled(cases), strict=True):
        x = samples(case.operands[0])
        x = x[~np.isnan(x.astype(np.float64))]
        assert function(x).tobytes() == x.tobytes(), case
