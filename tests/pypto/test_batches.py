"""Local ops that are gathered before they run."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from emu import pypto
from emu.pypto import local, operation
from emu.pypto.native import plan


@pytest.fixture(params=["native", "reference"])
def backend(request, monkeypatch):
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(plan, "_plans", {})
    with pypto.set_options(backend=request.param):
        yield request.param


def test_an_array_that_is_assigned_is_read_at_once(backend):
    @pypto.frontend.jit
    def kernel(out):
        values = np.ones((4, 8), np.float32)
        out[0:, 0:] = values
        values[:] = 7

    out = np.zeros((4, 8), np.float32)
    kernel(out)
    assert (out == 1).all()


def test_results_that_nobody_reads_any_more_take_no_memory(backend):
    @pypto.frontend.jit
    def kernel(x, out):
        t = x
        for _ in range(100):
            t = t + 1.0
        out[:, :] = t

    x, out = np.zeros((512, 512), np.float32), np.zeros((512, 512), np.float32)
    kernel(x, out)
    tracemalloc.start()
    kernel(x, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (out == 100).all()
    assert peak < 6 * x.nbytes


def test_memory_of_another_shape_is_not_taken_for_that_of_an_earlier_batch(backend):
    @pypto.frontend.jit
    def kernel(x, out):
        whole = x * 2.0
        whole[0:8, 0:8] = x[8:16, 0:8] + 1.0
        out[:, :] = whole

    for columns in (64, 128):
        x = np.arange(64 * columns, dtype=np.float32).reshape(64, columns)
        out, wanted = np.zeros_like(x), x * 2
        wanted[:8, :8] = x[8:16, :8] + 1
        kernel(x, out)
        np.testing.assert_array_equal(out, wanted)


def test_tensors_on_overlapping_arrays_are_computed_in_order(backend):
    memory = np.zeros((9, 512), np.float32)

    @pypto.frontend.jit
    def kernel():
        first, second = pypto.from_numpy(memory[:-1]), pypto.from_numpy(memory[1:])
        second[:, :] = first + 1.0

    wanted = memory.copy()
    wanted[1:] = memory[:-1] + 1
    kernel()
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.parametrize("held", ["list", "view", "closure"])
def test_results_that_the_program_holds_are_there(backend, held):
    kept = []

    @pypto.frontend.jit
    def kernel(x, out):
        t = x + 1.0
        if held == "list":
            kept.append(t)
        elif held == "view":
            kept.append(t[2:6, 4:8])
        else:
            kept.append(lambda: t)
        t = pypto.exp(t * 0.0)
        out[:, :] = t

    x, out = np.zeros((8, 512), np.float32), np.zeros((8, 512), np.float32)
    kernel(x, out)
    (t,) = kept
    values = (t() if held == "closure" else t).numpy()
    assert (values == 1).all()
    assert (out == 1).all()


def test_a_division_by_zero_warns_of_nothing(backend, recwarn):
    @pypto.frontend.jit
    def kernel(x, out):
        out[:, :] = pypto.cumsum(x / 0.0, 1)

    out = np.zeros((2, 4), np.float32)
    kernel(np.ones((2, 4), np.float32), out)
    assert np.isinf(out).all()
    assert not recwarn.list


def test_a_kernel_that_raises_has_done_what_stood_before(backend):
    @pypto.frontend.jit
    def kernel(x, out):
        out[:, :] = x + 1.0
        raise ZeroDivisionError

    out = np.zeros((2, 512), np.float32)
    with pytest.raises(ZeroDivisionError):
        kernel(np.ones((2, 512), np.float32), out)
    assert (out == 2).all()


def test_an_index_outside_is_told_at_its_call(backend):
    @pypto.frontend.jit
    def kernel(x, index, out):
        out[:, :] = x + 1.0
        with pytest.raises(pypto.ArgumentError, match="index must be at least 0 and below 2"):
            pypto.gather(x, 0, index)
        out[:, :] = x + 2.0

    out = np.zeros((2, 3), np.float32)
    kernel(np.ones((2, 3), np.float32), np.full((1, 3), 5, np.int32), out)
    assert (out == 3).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (4,), (17, 3)])
def test_what_numpy_makes_at_once_is_what_the_references_write(dtype, shape, monkeypatch):
    numbers = np.random.default_rng(5).integers(-4, 5, (2, *shape)).astype(dtype)
    if numbers.dtype.kind == "f":
        numbers.flat[:3] = np.nan, np.inf, -0.0
    layouts = [
        numbers,
        [np.asfortranarray(x) for x in numbers],
        [x[..., ::-1] for x in numbers],
    ]
    is_float = numbers.dtype.kind == "f"

    @pypto.frontend.jit
    def kernel(x, y, out) -> None:
        results = [x + y, x - y, x * 3, pypto.maximum(x, y), pypto.minimum(x, 2), x * y[..., :1]]
        if is_float:
            results += [x / y, pypto.exp(x), pypto.sqrt(y), x / pypto.view(x, [1] * x.ndim)]
        results.append(pypto.sum(results[0], 0, True) + x)
        for i, value in enumerate(results):
            out[(slice(i, None), *[slice(0, None)] * x.ndim)] = pypto.reshape(value, [1, *shape])

    for x, y in layouts:
        found = []
        for table in (local._WHOLE, {}):
            monkeypatch.setattr(local, "_WHOLE", table)
            out = np.zeros((11, *shape), dtype)
            kernel(x, y, out)
            found.append(out.tobytes())
        monkeypatch.undo()
        assert found[0] == found[1]
