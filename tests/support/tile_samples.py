"""Numbers to try operations on, and what the reference makes of them."""

import numpy as np

from emu.tile.cpu import native
from emu.tile.ir import Operation, Value
from emu.tile.reference.elementwise import ELEMENTWISE
from emu.tile.types import (
    F16,
    F32,
    F64,
    Kind,
)

HASWELL = native.Target("haswell", "")


def _specials(dtype):
    if dtype.is_float:
        info = np.finfo(dtype.numpy) if dtype in (F16, F32, F64) else None
        values = [0.0, 1.0, 1.5, 2.0, 3.0, 0.1, 0.5, 2.5, 3.5, 100.3, 448.0, 464.0, 480.0]
        values += [65504.0, 65520.0, 255.9, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30, 1e300]
        values += [2.0**-9, 2.0**-10, 1.5 * 2**-10, 2.0**-24, 2.0**-25, 2.0**-133, 1e-42, 1e-310]
        values += [float("inf"), float("nan")]
        if info is not None:
            values += [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        values = np.array(values + [-v for v in values], np.float64)
        return values.astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    values = {0, 1, 2, 3, 7, 15, 31, 32, 63, 64, 100, -1, -2, -7, -32}
    values |= {limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2 + 1}
    values = sorted(v for v in values if limits.min <= v <= limits.max)
    return np.array(values, dtype.numpy)


def _random(dtype, count, seed):
    random = np.random.default_rng(seed)
    values = np.frombuffer(random.bytes(count * dtype.bytes), f"u{dtype.bytes}").copy()
    some = random.random(count) < 0.4  # moderate numbers beside random bits
    if dtype.is_float:
        moderate = random.normal(0, 4, count).astype(dtype.numpy).view(values.dtype)
    else:
        moderate = random.integers(0, 100, count).astype(values.dtype)
    return np.where(some, moderate, values).view(dtype.numpy)


def samples(dtype, seed=0):
    """Every value of a dtype of at most 16 bits; otherwise special and random ones."""
    if dtype.kind is Kind.BOOL:
        return np.array([False, True] * 20)
    if dtype.bits <= 16:
        return np.arange(1 << dtype.bits).astype(f"u{dtype.bytes}").view(dtype.numpy)
    return np.concatenate([_specials(dtype), _random(dtype, 20_001, seed)])


def reference(case, *arrays):
    operands = [Value(element) for element in case.operands]
    operation = Operation(case.code, operands, [case.result], case.attributes)
    return np.asarray(ELEMENTWISE[case.code](operation, *arrays))


def assert_same(got, want, label, arrays):
    assert got.dtype == want.dtype, label
    same = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    if got.dtype.kind not in "biu":
        wide, other = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(wide) & np.isnan(other)
        if label.startswith(("MIN", "MAX")):
            same |= wide == other  # -0 and +0
    wrong = np.flatnonzero(~same)[:5]
    assert not wrong.size, (label, [[a[i] for a in arrays] for i in wrong], got[wrong], want[wrong])
