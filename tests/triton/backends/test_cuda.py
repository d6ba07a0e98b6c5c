"""The backend ``"cuda"`` where nothing runs: errors, texts, and the way of memory to a device and back."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numba import cuda

import emu.triton.language as tl
from emu import triton
from emu.kernels.cuda.device import SIMULATED, CudaUnavailableError
from emu.tile.text import parse_module
from emu.triton.backends.cuda import CudaExecutable
from emu.triton.runtime import arguments
from emu.triton.runtime.backends import PassedTensor

nowhere = pytest.mark.skipif(
    SIMULATED or cuda.is_available(), reason="kernels of CUDA can run on this machine"
)


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


X = np.arange(8, dtype=np.float32)


@nowhere
@pytest.mark.parametrize("chosen_by", ["option", "environment"])
def test_without_a_device_the_error_says_what_to_set(monkeypatch: Any, chosen_by: str) -> None:
    options = {"backend": "cuda"} if chosen_by == "option" else {}
    if not options:
        monkeypatch.setenv("EMU_TRITON_BACKEND", "cuda")
    kernel = triton.jit(double.fn)
    with pytest.raises(CudaUnavailableError, match="set NUMBA_ENABLE_CUDASIM=1 before Python"):
        kernel[(1,)](X, X.copy(), 8, BLOCK=8, **options)


def test_compiling_needs_no_device() -> None:
    kernel = double.warmup(X, X, 8, BLOCK=8, grid=(1,), backend="cuda")
    assert kernel.metadata.backend == "cuda"
    assert "@cuda.jit\ndef kernel(x_ptr_, y_ptr_, n_," in kernel.asm["numba"]
    assert "func @double(" in kernel.asm["ttir"]
    with pytest.raises(KeyError, match="no 'llir'"):
        _ = kernel.asm["llir"]


def test_addresses_are_not_checked_by_the_kernel() -> None:
    for options in ({"check": "bounds"}, {"check": "bounds:all"}):
        with pytest.raises(ValueError, match="check must be None or False with backend='cuda'"):
            double[(1,)](X, X, 8, BLOCK=8, backend="cuda", **options)
    double.warmup(X, X, 8, BLOCK=8, grid=(1,), backend="cuda", check=False)


def test_a_tensor_of_a_device_is_refused_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(8), torch.empty(8, device="meta")
    with pytest.raises(
        ValueError, match=r"y_ptr of kernel double: .* unless backend='cuda', .* meta"
    ):
        double[(1,)](x, y, 8, BLOCK=8)
    with pytest.raises(ValueError, match=r"y_ptr of kernel double: .* got one on meta"):
        double[(1,)](x, y, 8, BLOCK=8, interpret=True)
    compiled = double[(1,)](x, x, 8, BLOCK=8)
    with pytest.raises(ValueError, match="must be in host memory"):
        compiled[(1,)](x, y, 8)


class OnDevice:
    """An array of another library, in memory of a GPU."""

    __cuda_array_interface__ = {  # noqa: RUF012 - as the protocol has it
        "data": (4096, False),
        "shape": (8,),
        "typestr": "<f4",
        "version": 3,
    }


def test_arrays_of_a_device_are_arguments_of_this_backend_alone() -> None:
    key, address = arguments.describe(OnDevice())
    assert (key, address) == ((np.dtype(np.float32), "device"), 4096)
    assert arguments.pointer_spelling(key) == "*fp32"
    kernel = double.warmup(OnDevice(), X, 8, BLOCK=8, grid=(1,), backend="cuda")
    assert kernel.src.signature["x_ptr"] == "*fp32"
    for given in (OnDevice(), (OnDevice(),)):
        with pytest.raises(ValueError, match="x_ptr of kernel double: a tensor argument must be"):
            double[(1,)](given, X, 8, BLOCK=8)


MODULE = """
func @moves(%x: ptr<f32>, %y: ptr<f32>, %n: i32) {
  %0 = load %x : f32
  store %y, %0
  return
}
"""


class Copy:
    """What Numba's device arrays do, in this machine's memory."""

    made: list[Any] = []  # noqa: RUF012 - of one test

    def __init__(self, array: Any) -> None:
        self.memory = array.copy()
        self.read_back = False
        self.__cuda_array_interface__ = {"data": (self.memory.ctypes.data, False)}
        self.made.append(self)

    def copy_to_host(self, target: Any) -> None:
        self.read_back = True
        target[...] = self.memory


class Moves:
    """A kernel that runs in the memory of the copies."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def launch(self, numbers: Any, grid: Any) -> None:
        self.launches.append((list(numbers), grid))
        x, y = (ctypes.c_float.from_address(a) for a in numbers[:2])
        y.value = x.value + 1


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Launches the module above as on a GPU, with arrays for tensors."""
    monkeypatch.setattr("emu.kernels.cuda.device.SIMULATED", False)
    monkeypatch.setattr("numba.cuda.to_device", Copy)
    monkeypatch.setattr(Copy, "made", [])

    def launch(x: Any, y: Any, text: str = MODULE) -> Moves:
        executable, kernel = CudaExecutable(parse_module(text)), Moves()
        values = [arguments.describe(v)[1] for v in (x, y)]
        tensors = [PassedTensor("x", x, False), PassedTensor("y", y, True), None]
        executable._launch(kernel, (2, 1, 1), [*values, 5], tensors)  # type: ignore[arg-type]  # a stand-in
        return kernel

    return launch


def test_host_memory_is_copied_to_a_device_and_back_if_it_is_written(moves: Any) -> None:
    x, y = np.array([3, 4], np.float32), np.zeros(2, np.float32)
    kernel = moves(x, y)
    assert y.tolist() == [4, 0]
    assert x.tolist() == [3, 4]
    assert sorted(c.read_back for c in Copy.made) == [False, True]
    ((numbers, grid),) = kernel.launches
    assert (numbers[2], grid) == (5, (2, 1, 1))
    assert not {x.ctypes.data, y.ctypes.data} & set(numbers)


def test_views_are_copied_once_with_all_of_their_storage(moves: Any) -> None:
    both = np.arange(10, dtype=np.float32)
    moves(both[6:], both[2:4])
    assert both.tolist() == [0, 1, 7, 3, 4, 5, 6, 7, 8, 9]
    (copy,) = Copy.made
    assert copy.memory.nbytes == 40


def test_memory_of_the_device_is_used_as_it_is(moves: Any, monkeypatch: Any) -> None:
    there = np.zeros(8, np.float32)
    interface = OnDevice.__cuda_array_interface__ | {"data": (there.ctypes.data, False)}
    monkeypatch.setattr(OnDevice, "__cuda_array_interface__", interface)
    moves(np.ones(1, np.float32), OnDevice())
    assert there[0] == 2
    assert len(Copy.made) == 1


def test_memory_of_unknown_size_is_refused(moves: Any) -> None:
    class Plain:
        dtype = np.dtype(np.float32)

        def data_ptr(self) -> int:
            return 4096

    with pytest.raises(
        ValueError, match=r"x of kernel moves must be an array or a tensor.*got Plain"
    ):
        moves(Plain(), np.zeros(1, np.float32))
    assert not Copy.made


def test_addresses_in_memory_are_refused_with_memory_of_the_host(moves: Any) -> None:
    text = MODULE.replace("ptr<f32>, %n", "ptr<ptr<f32>>, %n").replace(
        "store %y, %0", "%1 = load %y : ptr<f32> at #0\n  store %1, %0"
    )
    x, y = np.zeros(1, np.float32), np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match=r"^k\.py:3:9: kernel moves takes addresses from memory"):
        moves(x, y, text + '#0 = "k.py":3:9 in "moves"\n')


@pytest.mark.skipif(cuda.is_available(), reason="the simulator is for machines without a GPU")
def test_a_program_under_emu_run_uses_the_simulator(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def double(x, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n"
        "    tl.store(x + i, tl.load(x + i) * 2)\n"
        "x = torch.arange(4., device='cuda')\n"
        "print(double[(1,)](x, BLOCK=4).metadata.backend, x.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", str(script)],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "EMU_TRITON_BACKEND": "cuda"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "cuda [0.0, 2.0, 4.0, 6.0]\n", done.stderr
