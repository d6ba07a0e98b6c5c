"""Random kernels: compiled beside computed by references, gathered beside one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from campaigns import shares
from pypto_random_kernels import Program

from emu import pypto
from emu.pypto import operation, submission
from emu.pypto.native import plan


@pytest.fixture(autouse=True)
def _compiles_small_arrays(monkeypatch):
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(plan, "_plans", {})


def check(seed: int, monkeypatch) -> None:
    program = Program(seed)
    wanted = program.run("reference", monkeypatch, 1)
    for backend, most_ops in (("native", 256), ("native", 1), ("reference", 256)):
        found = program.run(backend, monkeypatch, most_ops)
        for x, y in zip(found, wanted, strict=True):
            # Which zero is the larger is left open, so signs of zeros are not compared.
            np.testing.assert_array_equal(
                x.astype(np.float64), y.astype(np.float64), err_msg=f"seed {seed} {backend}"
            )


@pytest.mark.parametrize("share", range(2))
def test_random_kernels_have_the_same_bits_however_they_are_computed(share, monkeypatch):
    for seed in range(1000 * share, 1000 * share + 6):
        check(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(4))
def test_many_random_kernels_have_the_same_bits_however_they_are_computed(share, monkeypatch):
    for seed in range(10_000 * (share + 1), 10_000 * (share + 1) + 12):
        check(seed, monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(8, 300), (40, 7), (3, 5, 64)])
def test_sums_and_softmax_do_not_depend_on_what_they_are_gathered_with(dtype, shape, monkeypatch):
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)

    @pypto.frontend.jit
    def kernel(x, sums, columns, soft):
        t = x * 1.5
        sums[tuple(slice(0, None) for _ in shape)] = pypto.sum(t + 1.0, -1, True) + t * 0.0
        columns[tuple(slice(0, None) for _ in shape)] = pypto.sum(t, 0, True) + t * 0.0
        soft[tuple(slice(0, None) for _ in shape)] = pypto.softmax(pypto.abs(t) - 1.0) * 2.0

    found = []
    for most_ops in (256, 1):
        outs = [np.zeros(shape, dtype) for _ in range(3)]
        monkeypatch.setattr(submission, "MOST_OPS", most_ops)
        kernel(x, *outs)
        found.append([out.astype(np.float64) for out in outs])
    for together, alone in zip(*found, strict=True):
        np.testing.assert_array_equal(together, alone)
