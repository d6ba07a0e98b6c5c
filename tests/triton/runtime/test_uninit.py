"""Launches that follow what they read of unwritten memory: what they report, and what they leave alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.kernels.core import shadows

BACKENDS = ("cpu", "reference")


@pytest.fixture(autouse=True)
def shadows_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no shadows in the tests that this process runs later: the first launch turns them on for good."""
    monkeypatch.setattr(shadows, "_is_kept", shadows.are_kept())


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x * 2, mask=i < n)


@triton.jit
def through(table, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(p + i))


@triton.jit
def gathers(index, x_ptr, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x_ptr + tl.load(index + i)))


@triton.jit
def counts(n_ptr, out):
    total = 0
    for i in range(tl.load(n_ptr)):
        total += i
    tl.store(out, total)


@triton.jit
def decides(x_ptr, out):
    if tl.load(x_ptr) > 0:
        tl.store(out, 1.0)


@triton.jit
def adds(x_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit
def multiplies(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@pytest.fixture
def unwritten() -> Iterator[Any]:
    made = []

    def make(count: int, dtype: Any = np.float32) -> Any:
        array = np.zeros(count, dtype)
        shadows.track(array.ctypes.data, array.nbytes, "model.py:7")
        made.append(array)
        return array

    yield make
    for array in made:
        shadows.forget(array.ctypes.data)


def _read(kernel: Any, grid: Any, *values: Any, **options: Any) -> Any:
    with pytest.raises(triton.UninitialisedError) as caught:
        kernel[grid](*values, check="uninit", **options)
    assert str(caught.value) == caught.value.read.text
    return caught.value.read


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64])
def test_a_stored_value_is_reported(unwritten: Any, backend: str, dtype: Any) -> None:
    x, y = unwritten(64, dtype), np.zeros(64, dtype)
    x[:40] = 1
    read = _read(scale, (4,), x, y, 64, BLOCK=16, backend=backend)
    assert (read.use, read.program, read.lane) == ("stored value", (2, 0, 0), (8,))
    assert (read.site, read.argument, read.kernel) == ("model.py:7", "x_ptr", "scale")
    assert read.address == x.ctypes.data + 40 * x.itemsize
    assert (read.line - read.load_line, Path(read.file).name) == (1, "test_uninit.py")
    assert "element 40" in read.text
    assert "model.py:7" in read.text
    scale[(4,)](
        x, y, 40, BLOCK=16, backend=backend, check="uninit"
    )  # what is masked does not count
    x[40:] = 3
    scale[(4,)](x, y, 64, BLOCK=16, backend=backend, check="bounds,uninit")
    assert y[63] == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_of_kernels_write(unwritten: Any, backend: str) -> None:
    x, middle, y = np.ones(64, np.float32), unwritten(64), unwritten(64)
    how = {"BLOCK": 16, "backend": backend, "check": "uninit"}
    scale[(2,)](x, middle, 32, **how)
    read = _read(scale, (4,), middle, y, 64, BLOCK=16, backend=backend)
    assert (read.program, read.lane) == ((2, 0, 0), (0,))
    scale[(4,)](x, middle, 64, **how)
    scale[(4,)](middle, y, 64, **how)
    assert (y == 4).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("check", ["uninit", "uninit,bounds"])
def test_each_kind_of_use(unwritten: Any, backend: str, check: str) -> None:
    out = np.zeros(256, np.float32)
    how = {"backend": backend}
    index = unwritten(16, np.int32)
    assert _read(gathers, (1,), index, out, out, BLOCK=16, **how).use == "address"
    assert _read(counts, (1,), index, out.view(np.int32), **how).use == "bounds of a loop"
    assert _read(decides, (1,), unwritten(4), out, **how).use == "condition"
    read = _read(adds, (1,), unwritten(16), BLOCK=16, **how)
    assert read.use == "operand of an atomic operation"
    a = unwritten(256)
    a[: 5 * 16] = 1
    read = _read(multiplies, (1,), a, np.ones(256, np.float32), out, N=16, **how)
    assert (read.use, read.lane) == ("stored value", (5, 0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_pointers_in_memory(unwritten: Any, backend: str) -> None:
    good, bad = np.ones(16, np.float32), unwritten(16)
    table, out = np.array([good.ctypes.data, bad.ctypes.data]), np.zeros(16, np.float32)
    through[(1,)](table, out, BLOCK=16, check="uninit", backend=backend)
    read = _read(through, (2,), table, out, BLOCK=16, backend=backend)
    assert (read.argument, read.site, read.program) == (None, "model.py:7", (1, 0, 0))


_SCRIPT = """
import torch, triton
from test_uninit import scale

def run(x, n=64):
    try:
        scale[(4,)](x, torch.empty(64, device="cuda"), n, BLOCK=16)
    except triton.UninitialisedError as error:
        read = error.read
        return read.site.rpartition(":")[2], 16 * read.program[0] + read.lane[0]

x = torch.empty(64, device="cuda")
x[::2] = 1
print(run(x))
x[1::2].fill_(1)
print(run(x))
print(run(torch.empty_like(x)), run(x.new_empty(64)), run(torch.empty(64)))
y = torch.empty(64, device="cuda")
y[:32].copy_(x[:32])
print(run(y), run(y.clone()), run(y + 1), run(y, 32))
torch.add(x, 1, out=y)
print(run(y))
z = torch.empty(64, device="cuda", requires_grad=True)
with torch.no_grad():
    z.normal_()
print(run(z), run(torch.empty(64, device="cuda").uniform_()))
w = torch.empty(8, device="cuda"); w.resize_(64); w.zero_()
print(run(w))
"""


def test_tensors_of_emulated_devices(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{_SCRIPT}")
    command = [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", "--check", "uninit"]
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.stdout.splitlines() == [
        "('13', 1)",
        "None",
        "('18', 0) ('18', 0) None",
        "('19', 32) ('19', 32) None None",
        "None",
        "None None",
        "None",
    ], (done.stdout, done.stderr)


def test_wrong_checks_are_named() -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(ValueError, match="did you mean 'uninit'"):
        scale[(1,)](x, x, 64, BLOCK=16, check="uninitialized")
    command = [sys.executable, "-m", "emu", "run", "--check", "unint", "x.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "did you mean 'uninit'" in done.stderr


_SYMMETRIC = """
import emu, numpy as np, triton
from test_uninit import scale

world = emu.world()
me, y = world.my_pe, np.zeros(64, np.float32)

def run(x, n=64):
    try:
        scale[(4,)](x.local, y, n, BLOCK=16)
    except triton.UninitialisedError as error:
        read = error.read
        return read.site.rpartition(":")[2], 16 * read.program[0] + read.lane[0]

x = world.alloc(64, np.float32)
found = [run(x)]
world.barrier()
if me == 0:
    world.put(x[:40], np.ones(40, np.float32), 1)
world.barrier()
found += [run(x), run(x, 40 if me else 0)]
world.barrier()
x.local[40:] = 2
x.on(1 - me)[:40] = 3
world.barrier()
found += [run(x)]
world.barrier()
flags = world.alloc(64, np.float32, poison=False)
found += [run(flags)]
x.free()
world.barrier()
z = world.alloc(64, np.float32)
found += [run(z)]
for pe in range(2):
    world.barrier()
    if pe == me:
        print(me, found)
"""


@pytest.mark.slow
@pytest.mark.parametrize("poison", [True, False])
def test_symmetric_memory_is_unwritten_where_it_is_poisoned(tmp_path: Path, poison: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{_SYMMETRIC}"
    )
    command = [sys.executable, "-m", "emu", "run", "-n", "2", "--no-prefix", "--check", "uninit"]
    if poison:
        command.append("--poison")
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, timeout=200, check=False
    )
    first = ("16", 0) if poison else None
    second = (("16", 0), ("16", 40)) if poison else (None, None)
    again = ("33", 0) if poison else None
    assert sorted(done.stdout.splitlines()) == [
        f"{pe} {[first, second[pe], None, None, None, again]}" for pe in range(2)
    ], (done.stdout, done.stderr)
