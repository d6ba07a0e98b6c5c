"""Kernels: jit, options and arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emu
import emu.pypto as p


def test_jit_with_and_without_parentheses():
    @p.frontend.jit
    def plain(x, out):
        """What it does."""
        out[:] = x + 1

    @p.jit()
    def called(x, out, times=2):
        out[:] = x * times

    x, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    plain(x, out)
    np.testing.assert_array_equal(out, x + 1)
    called(x, times=4, out=out)
    np.testing.assert_array_equal(out, 4 * x)
    assert (plain.__name__, plain.__doc__) == ("plain", "What it does.")


def test_kernels_take_views_and_lists_and_call_each_other():
    @p.jit
    def inner(a, out):
        out[:] = a + a

    @p.jit
    def outer(parts, out, **extra):
        for i, part in enumerate(parts):
            row = out[i : i + 1, :]
            inner(part, row)
        out[2:, :] = extra["last"]
        return len(parts)

    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.zeros((8, 3), np.float32)[::2, 1:]
    assert outer([base[:1, ::2], base[1:2, 1:3]], out, last=base[2:, :2]) == 2
    np.testing.assert_array_equal(out, [[0, 4], [10, 12], [8, 9], [0, 0]])


def test_one_array_twice_is_one_buffer():
    @p.jit(schedule="random", seed=3)
    def kernel(a, b):
        for _ in range(10):
            a[:] = b + 1

    x = np.zeros((2, 2), np.int32)
    kernel(x, x)
    assert (x == 10).all()
    with pytest.raises(p.KernelError, match="argument b must not overlap argument a"):
        kernel(x[:1], x)
    kernel(x[:, :1], x[:, 1:])


def test_options():
    with pytest.warns(p.PyptoWarning, match="'fancy' is not known"):
        p.jit(fancy=1, host_options={})
    p.jit(fancy=2)  # once

    @p.options(pass_options={"x": 1})
    def function():
        return 5

    assert function() == 5
    with p.options(runtime_options={}):
        pass


def test_methods_can_be_kernels():
    class Model:
        @p.jit
        def forward(self, x):
            x[:] = x + 1

    x = np.zeros((1, 1), np.int32)
    Model().forward(x)
    assert x[0, 0] == 1


SCRIPT = """
import pypto
import pypto.distributed as d
import pypto.experimental
from pypto.frontend import jit
from pypto.distributed import AtomicType
import emu.pypto

assert pypto is emu.pypto
assert d is pypto.distributed is emu.pypto.distributed
assert jit is pypto.frontend.jit
assert AtomicType is pypto.AtomicType is emu.AtomicOp
assert pypto.experimental.shmem_store is d.shmem_store
assert d.shmem_put and pypto.experimental.shmem_put and pypto.experimental.shmem_get
assert pypto.experimental.shmem_load is d.shmem_load
import pypto.dtypes
assert pypto.dtypes.DT_FP32 is pypto.DT_FP32
"""


def test_the_stand_in_is_the_same_module():
    root = Path(emu.__file__).parent
    path = f"{root / 'shims'}:{root.parent}"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_export_exists():
    assert sorted(p.__all__, key=str) == sorted(set(p.__all__), key=str)
    for name in p.__all__:
        assert getattr(p, name) is not None
    for module in (p.distributed, p.experimental):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_loops():
    assert list(p.loop(3, name="l", idx_name="i")) == [0, 1, 2]
    assert list(p.loop(2, 8, 3)) == [2, 5]
    assert isinstance(next(p.loop(1)), p.SymbolicScalar)
    for bounds, message in (((), "1 to 3 bounds"), ((0, 3, 0), "step"), ((1.5,), "bound 0")):
        with pytest.raises(p.ArgumentError, match=message):
            p.loop(*bounds)
    assert p.cond(p.SymbolicScalar(1) == 1)
