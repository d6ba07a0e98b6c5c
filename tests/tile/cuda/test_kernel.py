"""What cannot be launched is said before anything runs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tile_harness import Kernel

from emu.tile.cuda import CudaKernel, compile_kernel
from emu.tile.cuda import kernel as kernels
from emu.tile.ops import Code
from emu.tile.types import F32, I1, I32, I64


@pytest.mark.parametrize("threads", [0, -1, 3, 48, 2048, 16.0, "32"])
def test_threads_must_be_a_power_of_two(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads must be a power of two"):
        compile_kernel(Kernel().module, threads=threads)


@pytest.fixture
def kernel() -> CudaKernel:
    k = Kernel()
    pointer = k.pointer(np.zeros(4, np.float32))
    number, flag = k.argument(I32, 1), k.argument(I1, 1)
    long, real = k.argument(I64, 1), k.argument(F32, 1)
    b = k.builder
    b.store(
        pointer, b.binary(Code.ADD, real, b.cast(b.select(flag, b.cast(number, I64), long), F32))
    )
    b.return_()
    return compile_kernel(k.module)


GOOD: tuple[Any, ...] = (np.zeros(4, np.float32), 1, True, 2, 1.5)


@pytest.mark.parametrize(
    ("position", "value", "error", "message"),
    [
        (
            0,
            np.zeros(4),
            TypeError,
            "argument 0 of kernel must have dtype float32, but got float64",
        ),
        (
            0,
            np.zeros(4, np.int32),
            TypeError,
            "argument 0 of kernel must have dtype float32, but got",
        ),
        (0, [1.0], TypeError, "argument 0 of kernel must be an array or an address, but got list"),
        (1, 1.5, TypeError, "argument 1 of kernel must be a number of dtype i32, but got float"),
        (1, 2**31, ValueError, "argument 1 of kernel must be from -2147483648 to 2147483647"),
        (2, 2, ValueError, "argument 2 of kernel must be 0 or 1, but got 2"),
        (4, None, TypeError, "argument 4 of kernel must be a number of dtype f32, but got None"),
    ],
)
def test_arguments_are_checked(
    kernel: CudaKernel, position: int, value: Any, error: type[Exception], message: str
) -> None:
    arguments = [*GOOD[:position], value, *GOOD[position + 1 :]]
    with pytest.raises(error, match=message):
        kernel.launch(arguments, (1,))


def test_their_number_is_checked(kernel: CudaKernel) -> None:
    with pytest.raises(ValueError, match="kernel takes 5 arguments, but got 2"):
        kernel.launch(GOOD[:2], (1,))


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (-1,), (1.0,), (1 << 16, 1 << 16)])
def test_the_grid_is_checked(kernel: CudaKernel, grid: Any) -> None:
    with pytest.raises(ValueError, match="grid must be one to three extents"):
        kernel.launch(GOOD, grid)


class Copy:
    """What Numba's device arrays do, in this machine's memory."""

    def __init__(self, array: Any) -> None:
        self.memory = array.copy()
        self.__cuda_array_interface__ = {"data": (self.memory.ctypes.data, False)}

    def copy_to_host(self, target: Any) -> None:
        target[...] = self.memory


@pytest.mark.parametrize("step", [1, -1, 3])
def test_arrays_are_copied_to_a_device_and_back(monkeypatch: Any, step: int) -> None:
    monkeypatch.setattr("emu.kernels.cuda.device.SIMULATED", False)
    monkeypatch.setattr("numba.cuda.to_device", Copy)
    array = np.arange(24, dtype=np.int16)[::step]
    before = array.copy()
    with kernels._address(array, []) as address:
        there = ctypes.c_int16.from_address(address)
        assert there.value == before[0]
        there.value = 77
        assert array[0] == before[0]
    assert array[0] == 77
    assert (array[1:] == before[1:]).all()


def test_the_source_is_a_module_in_python(kernel: CudaKernel) -> None:
    compile(kernel.source, "kernel.py", "exec")
    assert "@cuda.jit\ndef kernel(" in kernel.source


def test_compiling_needs_no_numba() -> None:
    program = (
        "import sys, emu.tile.cuda\n"
        "from emu.tile.ir import Builder, Function, Module\n"
        "b = Builder(); m = Module({'kernel': Function('kernel', b.region)})\n"
        "b.store(b.cast(b.constant(0, emu.tile.types.I64), emu.tile.types.Pointer("
        "emu.tile.types.I32)), b.program_id(0)); b.return_()\n"
        "assert 'store_i32' in emu.tile.cuda.compile_kernel(m).source\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
