"""Options of a launch, and the environment's settings in their place."""

import os

import ml_dtypes
import numpy as np
import pytest
from triton_kernels import copy

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime.build import Request

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def test_options_are_accepted_and_do_not_compile_again():
    x, y = np.arange(4.0), np.zeros(4)
    plain = copy[(1,)](x, y, 4)
    tuned = copy[(1,)](x, y, 4, num_warps=8, num_stages=2, waves_per_eu=1, maxnreg=None)
    assert tuned.metadata.num_warps == 8
    assert plain.metadata.num_warps == 4
    assert tuned._build is plain._build


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_warps": 3}, "num_warps must be a power of 2"),
        ({"num_threads": 0}, "num_threads must be an int of at least 1"),
        ({"backend": "gpu"}, "backend must be one of"),
    ],
)
def test_bad_options_are_refused(options, message):
    y = np.zeros(4)
    with pytest.raises(ValueError, match=message):
        copy[(1,)](np.ones(4), y, 4, **options)
    assert not y.any()


def test_a_wrong_number_of_warps_is_an_assertion_too():
    with pytest.raises(AssertionError, match="must be a power of 2"):
        copy.warmup(np.ones(4), np.zeros(4), 4, grid=(1,), num_warps=3)


@pytest.mark.parametrize("count", [0, "2"])
def test_numbers_of_ctas_are_counts(count):
    with pytest.raises(ValueError, match="num_ctas must be an int of at least 1, but got"):
        copy.warmup(np.ones(4), np.zeros(4), 4, grid=(1,), num_ctas=count)


def test_clusters_need_a_gpu_that_has_them(monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "override_arch", "sm80")
    with pytest.raises(ValueError, match=r"num_ctas > 1 requires NVIDIA SM90\+"):
        copy.warmup(np.ones(4), np.zeros(4), 4, grid=(1,), num_ctas=16)
    monkeypatch.setattr(triton.knobs.runtime, "override_arch", "sm90")
    copy.warmup(np.ones(4), np.zeros(4), 4, grid=(1,), num_ctas=16)


def test_the_environment_says_how_many_threads(monkeypatch):
    x, y = np.arange(4.0), np.zeros(4)
    monkeypatch.setenv("EMU_THREADS", "3")
    assert copy[(1,)](x, y, 4, num_ctas=2).metadata.num_threads == 3
    assert copy[(1,)](x, y, 4, num_threads=2).metadata.num_threads == 2
    monkeypatch.setenv("EMU_THREADS", "none")
    with pytest.raises(ValueError, match="EMU_THREADS must be a whole number"):
        copy[(1,)](x, y, 4, num_ctas=4)


def test_a_pe_uses_one_thread_as_numba_does(monkeypatch):
    monkeypatch.delenv("EMU_THREADS", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    y = np.zeros(4)
    assert copy[(1,)](y, y, 4, num_stages=7).metadata.num_threads == 1
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    found = copy[(1,)](y, y, 4, num_stages=8).metadata.num_threads
    assert found == len(os.sched_getaffinity(0))


@triton.jit
def square(x_ptr, y_ptr, precision: tl.constexpr = None):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, tl.dot(x, x, input_precision=precision))


def test_operands_of_products_are_rounded_where_a_launch_says_so(monkeypatch):
    x, y = np.full((16, 16), 1 + 2.0**-12, np.float32), np.zeros((16, 16), np.float32)
    whole, rounded = 16 + 2.0**-7, 16.0

    def result(**options):
        square[(1,)](x, y, **options)
        return set(y.flat)

    assert result() == result(apply_input_precision=False) == {whole}
    assert result(precision="tf32") == {whole}
    assert result(apply_input_precision=True) == {rounded}
    assert result(apply_input_precision=True, precision="ieee") == {whole}
    assert result(apply_input_precision=True, backend="reference") == {rounded}
    with triton.knobs.language.scope():
        triton.knobs.language.apply_input_precision = True
        assert result(num_stages=2) == {rounded}  # another launch: a compiled one stays as it is
        triton.knobs.language.fp32_default = "ieee"
        assert result(num_stages=4) == {whole}
        triton.knobs.language.fp32_default = "fp16"
        with pytest.raises(ValueError, match=r"TRITON_F32_DEFAULT must be one of .* got 'fp16'"):
            result(num_stages=5)
    with pytest.raises(TypeError, match="apply_input_precision must be a bool, but got str 'tf32'"):
        result(apply_input_precision="tf32")


@triton.jit
def multiply_halves(x_ptr, y_ptr, z_ptr, precision: tl.constexpr = None):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)
    x, y = tl.load(x_ptr + offsets), tl.load(y_ptr + offsets)
    tl.store(z_ptr + offsets, tl.dot(x, y, input_precision=precision))


def test_a_knob_makes_products_of_bf16_native(monkeypatch):
    monkeypatch.delenv("EMU_ALLOW_BF16_NATIVE", raising=False)
    # A subnormal is zero for the instruction of the CPU, and for the reference of it.
    x, y = np.zeros((16, 16), BFLOAT16), np.zeros((16, 16), BFLOAT16)
    x[0, 0], y[0, 0] = 2.0**-130, 2.0**120
    z = np.zeros((16, 16), np.float32)

    def result(**options):
        multiply_halves[(1,)](x, y, z, backend="reference", **options)
        return z[0, 0]

    assert result() == 2.0**-10
    assert result(precision="native") == 0
    with triton.knobs.language.scope():
        triton.knobs.language.allow_bf16_native = True
        assert result(num_stages=2) == 0
        assert result(num_stages=2, precision="ieee") == 2.0**-10
    monkeypatch.setenv("EMU_ALLOW_BF16_NATIVE", "1")
    assert result(num_stages=4) == 0
    assert result() == 2.0**-10  # a compiled one stays as it is


def test_a_native_kernel_has_a_digest_of_its_own():
    requests = [
        Request(multiply_halves, {"x_ptr": "*bf16"}, {}, False, "cpu", bf16_native=native)
        for native in (False, True)
    ]
    assert requests[0].key() != requests[1].key()
    assert requests[0].digest() != requests[1].digest()
