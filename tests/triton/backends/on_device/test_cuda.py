"""Kernels of every kind give with ``backend="cuda"`` what they give on the CPU."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.kernels.cuda.device import SIMULATED
from emu.triton.tools.tensor_descriptor import TensorDescriptor


def on_both(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> list[Any]:
    """Return what a kernel leaves in copies of its arguments on CUDA, and on the CPU."""
    left = []
    for backend in ("cuda", "cpu"):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        kernel[grid](*own, backend=backend, **constants)
        left.append([a for a in own if isinstance(a, np.ndarray)])
    return left


def same(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
    for got, wanted in zip(*on_both(kernel, grid, *arguments, **constants), strict=True):
        assert got.tobytes() == wanted.tobytes()


def close(kernel: Any, grid: Any, *arguments: Any, rtol: float = 2e-6, **constants: Any) -> None:
    for got, wanted in zip(*on_both(kernel, grid, *arguments, **constants), strict=True):
        if got.dtype.kind in "iub":
            assert (got == wanted).all()
        else:
            scale = np.abs(wanted.astype(np.float64)).max()
            found = got.astype(np.float64)
            np.testing.assert_allclose(found, wanted.astype(np.float64), 0, rtol * scale)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, inside) + tl.load(y_ptr + i, inside), inside)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
@pytest.mark.parametrize("n", [1, 100, 128])
def test_vector_add(dtype: str, n: int) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(n)
    x, y = ((rng.standard_normal(n) * 50).astype(kind) for _ in range(2))
    same(add, (triton.cdiv(n, 64),), x, y, np.zeros(n + 3, kind), n, BLOCK=64)


@triton.jit
def softmax(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride + i, e / tl.sum(e, axis=0), mask=i < n)


def test_softmax() -> None:
    x = np.random.default_rng(1).standard_normal((5, 50)).astype(np.float32)
    x[2, 3], x[3, :] = np.inf, 0
    x[2, 3] = 80
    close(softmax, (5,), x, np.zeros_like(x), 50, 50, BLOCK=64)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
    mean = tl.sum(total) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
        x = tl.where(i < n, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares) / n + eps)
    tl.store(mean_ptr + row, mean)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        w, b = tl.load(w_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)
        x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
        tl.store(y_ptr + row * n + i, (x - mean) * rstd * w + b, mask=i < n)


def test_layer_norm() -> None:
    rng = np.random.default_rng(2)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 70), 70, 70))
    close(
        layer_norm,
        (3,),
        *(x, w, b, np.zeros_like(x), np.zeros(3, np.float32), 70, 1e-5),
        BLOCK=32,
    )


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), c_ptr.dtype.element_ty)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        a_inside = (rows[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, out_dtype=c_ptr.dtype.element_ty)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total, mask=inside)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float8_e5m2", "float32"),
        ("float64", "float64"),
        ("int8", "int32"),
    ],
)
def test_products_have_the_bits_of_the_cpus(dtype: str, result: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal(s) * 3).astype(kind) for s in ((20, 24), (24, 18)))
    blocks = {"BM": 16, "BN": 16, "BK": 16}
    same(matmul, (2, 2), a, b, np.zeros((20, 18), result), 20, 18, 24, **blocks)


@triton.jit
def first_of(a_value, a_index, b_value, b_index):
    take = (a_value > b_value) | ((a_value == b_value) & (a_index < b_index))
    return tl.where(take, a_value, b_value), tl.where(take, a_index, b_index)


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def along_axes(x_ptr, f_ptr, i_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + at)
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    tl.store(f_ptr + rows, tl.sum(x, 1))
    tl.store(f_ptr + R + rows, tl.max(x, 1))
    index = tl.broadcast_to(columns[None, :], (R, C))
    value, where = tl.reduce((x, index), 1, first_of)
    tl.store(f_ptr + 2 * R + rows, value)
    tl.store(i_ptr + rows, where)
    tl.store(i_ptr + R + rows, tl.argmin(x, 1))
    tl.store(i_ptr + 2 * R + columns, tl.argmax(x, 0))
    tl.store(f_ptr + 3 * R + at, tl.cumsum(x, 1))
    tl.store(f_ptr + 3 * R + R * C + at, tl.associative_scan(x, 0, larger, reverse=True))
    tl.store(f_ptr + 3 * R + 2 * R * C + at, tl.sort(x, 1, descending=True))
    counts = tl.histogram((tl.reshape(x, (R * C,)) * 2).to(tl.int32) & 7, 8)
    tl.store(i_ptr + 2 * R + C + tl.arange(0, 8), counts)


def test_reductions_scans_sorting_and_histograms() -> None:
    x = np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)
    f, i = np.zeros(3 * 8 + 3 * 128, np.float32), np.zeros(2 * 8 + 16 + 8, np.int32)
    close(along_axes, (1,), x, f, i, R=8, C=16)


@triton.jit
def count(values_ptr, sums_ptr, extremes_ptr, old_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(values_ptr + i, mask=i < n, other=0)
    tl.atomic_add(sums_ptr + (x & 3), x, mask=i < n)
    tl.atomic_max(extremes_ptr, tl.max(x))
    tl.atomic_min(extremes_ptr + 1, tl.min(x))
    tl.atomic_or(extremes_ptr + 2, 1 << tl.program_id(0))
    tl.atomic_xchg(old_ptr + tl.program_id(0), x.shape[0])
    tl.atomic_cas(old_ptr + 8, 0, 7)


def test_atomic_operations() -> None:
    x = np.random.default_rng(5).integers(-100, 100, 50).astype(np.int32)
    zeros = [np.zeros(n, np.int32) for n in (4, 3, 9)]
    same(count, (4,), x, *zeros, 50, BLOCK=16)


@triton.jit
def ticket(lock_ptr, total_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)
    steps = 0
    n = tl.program_id(0) + 1
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    tl.store(out_ptr + tl.program_id(0), steps)


def test_loops_and_locks() -> None:
    same(ticket, (8,), np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(8, np.int32))


@triton.jit
def casts(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if x.dtype.is_fp8() or out_ptr.dtype.element_ty.is_fp8():
        x = x.to(tl.float32)
    tl.store(out_ptr + i, x.to(out_ptr.dtype.element_ty))


@pytest.mark.parametrize(
    "target",
    [
        *("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"),
        *("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"),
    ],
)
@pytest.mark.parametrize("source", ["int8", "uint64", "float8_e4m3fn", "bfloat16", "float64"])
def test_casts(source: str, target: str) -> None:
    kinds = [np.dtype(getattr(ml_dtypes, d, d)) for d in (source, target)]
    numbers = np.array([0, 1, -1, 3.5, -2.5, 100, 240, 1e-3], np.float64)
    if kinds[0].kind in "iu":
        numbers = np.array([0, 1, 2, 3, 5, 100, 126, 127], np.int64)
    same(casts, (1,), numbers.astype(kinds[0]), np.zeros(8, kinds[1]), BLOCK=8)


@triton.jit
def by_descriptor(source, target, BLOCK: tl.constexpr):
    x = source.load([tl.program_id(0) * BLOCK, 0])
    target.store([0, tl.program_id(0) * BLOCK], tl.trans(x))


def test_descriptors_of_views() -> None:
    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    outs = []
    for backend in ("cuda", "cpu"):
        out = np.zeros((8, 16), np.float32)
        source = TensorDescriptor(x, [16, 8], [16, 1], [8, 8])
        target = TensorDescriptor(out, [8, 16], [16, 1], [8, 8])
        by_descriptor[(2,)](source, target, BLOCK=8, backend=backend)
        outs.append(out.tolist())
    assert outs[0] == outs[1] == x[:, :8].T.tolist()


def test_views_of_one_array_share_its_memory() -> None:
    both = np.arange(32, dtype=np.int32)
    add[(1,)](both[:16], both[4:20], both[16:], 16, BLOCK=16, backend="cuda")
    wanted = np.arange(32)
    wanted[16:] = np.arange(16) + np.concatenate((np.arange(4, 16), np.arange(16, 20)))
    assert both.tolist() == wanted.tolist()


def test_a_read_only_array_is_only_read() -> None:
    x = np.arange(16, dtype=np.float32)
    x.flags.writeable = False
    out = np.zeros(16, np.float32)
    add[(1,)](x, x, out, 16, BLOCK=16, backend="cuda")
    assert out.tolist() == (x + x).tolist()
    with pytest.raises(ValueError, match="out_ptr of kernel add must be writable"):
        add[(1,)](out, out, x, 16, BLOCK=16, backend="cuda")


@triton.jit
def checked(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.device_assert(x > 0, "x must be positive")
    tl.store(x_ptr + tl.arange(0, BLOCK), -x)


def test_a_failed_assertion_is_raised() -> None:
    x = np.arange(16, dtype=np.int32)
    with pytest.raises(AssertionError, match=r"test_cuda\.py:[0-9]+:[0-9]+: x must be positive"):
        checked[(1,)](x, BLOCK=16, debug=True, backend="cuda")


@triton.jit
def shows(x, HEX: tl.constexpr):
    tl.device_print("x", x, hex=HEX)


def test_what_is_not_covered_is_named_with_its_place() -> None:
    place = re.escape(f"{shows.file_name}:{shows.fn.__code__.co_firstlineno + 2}:")
    with pytest.raises(Exception, match=f"^{place}.*does not cover print.*hexadecimal"):
        shows[(1,)](3, HEX=True, backend="cuda")


@triton.jit
def through_pointers(pointers_ptr, n, BLOCK: tl.constexpr):
    for k in range(n):
        x_ptr = tl.load(pointers_ptr + k).to(tl.pointer_type(tl.float32))
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + k)


def test_pointers_in_memory() -> None:
    arrays = [np.zeros(16, np.float32) for _ in range(3)]
    pointers = np.array([a.ctypes.data for a in arrays], np.int64)
    if not SIMULATED:
        with pytest.raises(ValueError, match="takes addresses from memory"):
            through_pointers[(1,)](pointers, 3, BLOCK=16, backend="cuda")
        return
    through_pointers[(1,)](pointers, 3, BLOCK=16, backend="cuda")
    assert [a.tolist() for a in arrays] == [[float(k)] * 16 for k in range(3)]


def test_the_simulator_refuses_addresses_outside_the_arguments() -> None:
    if not SIMULATED:
        return
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)
    with pytest.raises(IndexError, match="must lie in an argument"):
        add[(1,)](x, x, out, 64, BLOCK=64, backend="cuda")


def test_tensors_of_torch_and_of_the_device() -> None:
    torch = pytest.importorskip("torch")
    for device in ("cpu",) if SIMULATED else ("cpu", "cuda"):
        x = torch.arange(20, dtype=torch.bfloat16, device=device)
        out = torch.zeros_like(x)
        add[(2,)](x, x, out, 20, BLOCK=16, backend="cuda")
        assert (out == 2 * x).all()
    if not SIMULATED:
        from numba import cuda

        given = cuda.to_device(np.arange(20, dtype=np.float32))
        add[(2,)](given, given, given, 20, BLOCK=16, backend="cuda")
        assert given.copy_to_host().tolist() == [2.0 * k for k in range(20)]


@pytest.mark.parametrize("num_warps", [1, 8])
def test_the_number_of_warps_changes_no_result(num_warps: int) -> None:
    x = np.random.default_rng(6).standard_normal(64).astype(np.float32)
    y = np.zeros_like(x)
    kernel = softmax[(1,)](x, y, 64, 64, BLOCK=64, num_warps=num_warps, backend="cuda")
    assert kernel.metadata.num_warps == num_warps
    np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(), rtol=1e-5)


def test_hooks_are_called() -> None:
    told: list[Any] = []
    x = np.ones(16, np.float32)
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.launch_enter_hook = lambda f: told.append((f.get()["name"], x[0]))
        triton.knobs.runtime.launch_exit_hook = lambda f: told.append((f.get()["name"], x[0]))
        add[(1,)](x, x, x, 16, BLOCK=16, backend="cuda")
    assert told == [("add", 1), ("add", 2)]


def test_a_compiled_kernel_can_be_launched_again() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    kernel = add[(1,)](x, x, out, 16, BLOCK=16, backend="cuda")
    out[:] = 0
    kernel[(1,)](x, x, out, 16)
    assert out.tolist() == (2 * x).tolist()
