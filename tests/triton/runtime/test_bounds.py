"""Launches that check every address: what they report, and what they leave alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import knobs

BACKENDS = ("cpu", "reference")


@triton.jit
def copy(x_ptr, y_ptr, start, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + i, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def store_all(y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 1.0)


def _copy(x: Any, y: Any, start: int, n: int, **options: Any) -> None:
    copy[(triton.cdiv(n, 16),)](x, y, start, n, BLOCK=16, check="bounds", **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_address_past_the_end_stops_the_launch_and_is_described(backend: str) -> None:
    x, y = np.ones(40, np.float32), np.zeros(64, np.float32)
    with pytest.raises(triton.OutOfBoundsError) as caught:
        _copy(x, y, 0, 42, backend=backend, num_threads=1)
    (found,) = caught.value.accesses
    assert (found.kernel, found.verb, found.argument) == ("copy", "load", "x_ptr")
    assert (found.program, found.lane) == ((2, 0, 0), (8,))
    assert (found.past_end, found.before_start) == (0, None)
    assert found.address == x.ctypes.data + 160
    assert found.file == __file__
    source = Path(__file__).read_text().splitlines()[found.line - 1]
    assert source[found.column - 1 :].startswith("tl.load(x_ptr + start + i")
    text = str(caught.value)
    for part in ("in copy", "^", "x_ptr[40]", "(2, 0, 0) of (3, 1, 1)", "lane 8 of shape (16,)"):
        assert part in text
    for part in ("its mask is true", "float32, shape (40,), strides (1,)", "(160 bytes)"):
        assert part in text
    assert y[:32].all()
    assert not y[32:].any()  # program 2 stopped before its store


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_address_before_the_start_is_reported(backend: str) -> None:
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    with pytest.raises(triton.OutOfBoundsError) as caught:
        _copy(x, y, -3, 40, backend=backend)
    (found,) = caught.value.accesses
    assert (found.past_end, found.before_start, found.lane) == (None, 12, (0,))
    assert "12 bytes (3 elements) before the start of x_ptr's memory; it is x_ptr[-3]" in str(
        caught.value
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_may_be_left_within_their_storage(backend: str) -> None:
    whole, y = np.arange(100, dtype=np.float32), np.zeros(40, np.float32)
    view = whole[50:60]
    for x in (view, view[::-1], view.reshape(2, 5).T, whole.reshape(10, 10)[5:]):
        _copy(x, y, -9, 40, backend=backend)
    _copy(view, y, -50, 40, backend=backend)
    assert (y == whole[:40]).all()
    with pytest.raises(triton.OutOfBoundsError, match=r"4 bytes \(1 elements\) before the start"):
        _copy(view, y, -51, 40, backend=backend)


def test_views_of_torch_and_reinterpreted_tensors_have_their_storage() -> None:
    torch = pytest.importorskip("torch")
    whole, y = torch.arange(100, dtype=torch.float32), torch.zeros(40)
    _copy(whole[50:60], y, -50, 40)
    assert torch.equal(y, whole[:40])
    _copy(triton.reinterpret(whole[50:].view(torch.int32), tl.float32), y, -50, 40)
    with pytest.raises(triton.OutOfBoundsError, match=r"float32, shape \(10,\), strides \(1,\)"):
        _copy(whole[50:60], y, 20, 40)
    empty = torch.empty(0)
    with pytest.raises(triton.OutOfBoundsError):
        _copy(empty, y, 0, 1)
    _copy(empty, empty, 0, 0)


def test_memory_behind_a_tensor_is_not_touched_and_the_process_lives() -> None:
    # As Helion's test_view_blocksize_constexpr: a block that is greater than the tensor, and no mask.
    whole = np.zeros(64, np.float32)
    tensor = np.frombuffer(whole.data[:32], np.float32)  # an exporter of its own: 32 elements
    tensor = np.require(tensor, requirements="W") if tensor.flags.writeable else tensor
    y = np.zeros(24, np.float32)
    for threads in (1, 2):
        with pytest.raises(triton.OutOfBoundsError, match="store of f32 out of bounds in kernel"):
            store_all[(4,)](y, BLOCK=32, check="bounds", num_threads=threads)
    assert not y.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_bad_accesses_are_collected_and_left_out(backend: str) -> None:
    x, y = np.ones(40, np.float32), np.zeros(20, np.float32)
    with pytest.raises(triton.OutOfBoundsError) as caught:
        copy[(4,)](x, y, 0, 64, BLOCK=16, check="bounds:all", backend=backend)
    assert [a.argument for a in caught.value.accesses] == ["x_ptr", "y_ptr"]
    assert [a.program[0] for a in caught.value.accesses] == [2, 1]
    assert caught.value.count == 2 + 3
    assert (y == 1).all()
    assert "5 accesses of tiles were outside" in str(caught.value)


@triton.jit
def through(table_ptr, out_ptr, N: tl.constexpr):
    address = tl.load(table_ptr + tl.program_id(0))
    pointer = address.to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(pointer + tl.arange(0, N)), axis=0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_pointers_from_memory_may_reach_any_live_array(backend: str) -> None:
    arrays = [np.full(16, n, np.float32) for n in range(5)]
    table = np.array([a.ctypes.data for a in arrays])
    out = np.zeros(5, np.float32)
    through[(5,)](table, out, N=16, check="bounds", backend=backend)
    assert (out == 16 * np.arange(5)).all()
    table[3] = 64
    with pytest.raises(triton.OutOfBoundsError, match="address 0x40") as caught:
        through[(5,)](table, out, N=16, check="bounds", backend=backend)
    assert caught.value.accesses[0].argument is None
    assert caught.value.accesses[0].program == (3, 0, 0)


@triton.jit
def lock_and_add(lock_ptr, sum_ptr, at):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr + at, tl.load(sum_ptr + at) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@pytest.mark.parametrize("check", ["bounds", "bounds:all"])
def test_atomics_and_scalars_are_checked(check: str) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(2, np.int32)
    lock_and_add[(100,)](lock, total, 1, check=check, num_threads=2)
    assert list(total) == [0, 100]
    with pytest.raises(triton.OutOfBoundsError, match="a scalar, no mask"):
        lock_and_add[(1,)](lock, total, 2, check=check)
    with pytest.raises(triton.OutOfBoundsError, match="atomic of i32"):
        lock_and_add[(1,)](np.zeros(0, np.int32), total, 0, check="bounds")


@triton.jit
def rows(x_ptr, row, stride, mask_all, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + row * stride + i, 1.0, mask=(i >= 0) & (i < mask_all))


@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets_that_wrap_or_are_huge_are_found(backend: str) -> None:
    x = np.zeros(64, np.float32)
    how = {"BLOCK": 16, "check": "bounds", "backend": backend}
    rows[(1,)](x, 2**30, 2**30, 0, **how)  # no lane is active
    rows[(1,)](x, 2**16, 2**16, 16, **how)  # 2**32 wraps to 0 in i32
    assert x[:16].all()
    for row, stride in ((2**15, 2**16), (2**31, 2**20), (2**62, 4), (-1, 16), (-(2**40), 2)):
        if row == 2**62:  # as an i64 the address wraps to the tensor itself
            rows[(1,)](x, row, stride, 16, **how)
            continue
        with pytest.raises(triton.OutOfBoundsError):
            rows[(1,)](x, row, stride, 16, **how)


def test_settings_choose_the_check() -> None:
    y = np.zeros(64, np.float32)
    part = np.zeros(24, np.float32)
    plain = triton.jit(store_all.fn)
    plain[(2,)](y, BLOCK=32)
    with knobs.runtime.scope():
        knobs.runtime.check = "bounds"
        with pytest.raises(triton.OutOfBoundsError):
            plain[(1,)](part, BLOCK=32)
        with pytest.raises(triton.OutOfBoundsError):
            plain.run(part, BLOCK=32, grid=(1,), warmup=False)
        unchecked = triton.jit(store_all.fn, check=False)
        unchecked[(2,)](y, BLOCK=32)
        assert not unchecked._checked_tables
        compiled = plain[(2,)](y, BLOCK=32)
        with pytest.raises(triton.OutOfBoundsError):
            compiled[(3,)](y)
    checked = triton.jit(store_all.fn, check="bounds")
    with pytest.raises(triton.OutOfBoundsError):
        checked[(1,)](part, BLOCK=32)
    checked[(2,)](y, BLOCK=32, check=False)


@pytest.mark.parametrize("value", ["rice", 1, ["bounds"]])
def test_unknown_checks_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"check .* must be (made of|a string)"):
        triton.jit(store_all.fn, check=value)
    with pytest.raises((ValueError, TypeError), match="check"):
        store_all[(1,)](np.zeros(64, np.float32), BLOCK=32, check=value)


_SCRIPT = """
import numpy as np, sys
import emu.triton as triton
from test_bounds import store_all
y = np.zeros(24, np.float32)
try:
    store_all[(2,)](y, BLOCK=1 << 14)
except triton.OutOfBoundsError as error:
    print(len(error.accesses), error.accesses[0].lane, "alive")
"""


@pytest.mark.parametrize("how", ["environment", "option"])
def test_the_environment_and_emu_run_choose_the_check(how: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{_SCRIPT}")
    command = [sys.executable, str(script)]
    environment = {**os.environ, "EMU_CHECK": "bounds"}
    if how == "option":
        command = [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix"]
        command += ["--check", "bounds:all", str(script)]
        del environment["EMU_CHECK"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1 (24,) alive\n"), done.stderr


def test_tuples_of_tensors_are_named_by_their_place() -> None:
    @triton.jit
    def of_tuple(pair, n, BLOCK: tl.constexpr):
        tl.store(pair[1] + tl.arange(0, BLOCK), tl.load(pair[0] + tl.arange(0, BLOCK)))

    x, y = np.ones(16, np.float32), np.zeros(8, np.float32)
    with pytest.raises(triton.OutOfBoundsError) as caught:
        of_tuple[(1,)]((x, y), 3, BLOCK=16, check="bounds")
    assert caught.value.accesses[0].argument == "pair[1]"


@triton.jit
def add_what_it_points_to(a, b):
    return a + tl.load(b.to(tl.pointer_type(tl.int64)))


@triton.jit
def reduces_pointers(table, out, BLOCK: tl.constexpr):
    values = tl.load(table + tl.arange(0, BLOCK))
    tl.store(out, tl.reduce(values, 0, add_what_it_points_to))


def test_functions_of_reductions_load_nothing_that_would_have_to_be_checked() -> None:
    table, out = np.zeros(4, np.int64), np.zeros(1, np.int64)
    with pytest.raises(
        Exception, match="the combine function of a reduction must not load from memory"
    ):
        reduces_pointers[(1,)](table, out, BLOCK=4, check="bounds")
