"""Compiled kernels: their source, and launching them on a device or in Numba's simulator."""

from __future__ import annotations

import contextlib
import ctypes
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from emu.tile.cuda.expressions import numba_name, register
from emu.tile.cuda.generate import Generated, generate
from emu.tile.ir import Module
from emu.tile.types import DType, Kind, Pointer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from emu.kernels.core.annotations import NumbaType


class DeviceArray(Protocol):
    """An array in memory of a device, of whatever library."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        """Address, shape and dtype, as Numba defines them."""


Argument: TypeAlias = "float | NDArray[np.generic] | DeviceArray"
"""A number for a scalar; for a pointer an array, or an address as an integer."""

_MOST_BLOCKS = (1 << 31) - 1
_MOST_THREADS = 1024


class KernelAssertionError(AssertionError, RuntimeError):
    """Failed assertion of a kernel; a RuntimeError too, as on a GPU and in kernels for the CPU."""


class CudaKernel:
    """A kernel for CUDA; one program of its grid is one block.

    Attributes:
        source: The Python module that was generated: a function ``kernel`` under ``@cuda.jit``.
        name: The kernel's name in the tile IR.
        threads: Threads of a block.
        shared_bytes: Shared memory of a block.
        scratch_bytes: Global memory that a block needs besides, for tiles that are too large.
    """

    def __init__(self, generated: Generated, threads: int) -> None:
        self.source = generated.text
        self.name = generated.name
        self.threads = threads
        self.shared_bytes = generated.shared_bytes
        self.scratch_bytes = generated.scratch_bytes
        self._generated = generated
        self._function: Callable[..., object] | None = None

    @property
    def function(self) -> Callable[..., object]:
        """The Numba kernel, compiled at the first access."""
        if self._function is None:
            file = f"<tile kernel {self.name} {id(self):#x}>"
            linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
            names: dict[str, Any] = {"__name__": f"emu.tile.cuda.generated.{self.name}"}
            exec(compile(self.source, file, "exec"), names)  # noqa: S102 - our own text
            self._function = names["kernel"]
        assert self._function is not None
        return self._function

    def signature(self) -> tuple[NumbaType, ...]:
        """Return Numba's types of all arguments of :attr:`function`."""
        from emu.kernels.cuda.intrinsics import types

        own = [numba_name(a) for a in self._generated.arguments]
        return tuple(getattr(types, t) for t in (*own, *["int32"] * 3, *["int64"] * 2))

    def launch(
        self,
        arguments: Sequence[Argument],
        grid: Sequence[int],
        *,
        windows: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Run every program of a grid, and wait for them.

        Args:
            arguments: One for each of the kernel's. A scalar is a number. A pointer is an array of its
                dtype: of NumPy (on a device: copied there and back), or with
                ``__cuda_array_interface__``; or an address as an integer.
            grid: One to three extents; the rest are 1.
            windows: Memory (first address, address behind) that kernels may touch besides the arrays;
                only the simulator asks.

        Raises:
            TypeError: An argument is none of these.
            ValueError: There are more or fewer arguments, or an extent does not fit.
            CudaUnavailableError: There is neither a device nor the simulator.
            KernelAssertionError: An assertion of the kernel failed.
        """
        shape = _grid(grid)
        kinds = self._generated.arguments
        if len(arguments) != len(kinds):
            raise ValueError(f"{self.name} takes {len(kinds)} arguments, but got {len(arguments)}")
        _check(self.name, arguments, kinds)
        from emu.kernels.cuda.device import require_device

        require_device()
        blocks = math.prod(shape)
        if blocks:
            with contextlib.ExitStack() as stack:
                self._run(stack, arguments, shape, list(windows))

    def _run(
        self,
        stack: contextlib.ExitStack,
        arguments: Sequence[Argument],
        shape: tuple[int, int, int],
        windows: list[tuple[int, int]],
    ) -> None:
        from emu.kernels.cuda.device import launch

        status = np.zeros(1, np.int32)
        values: list[np.generic] = []
        addresses: dict[int, int] = {}  # an array that is given twice is one
        for argument, kind in zip(arguments, self._generated.arguments, strict=True):
            if isinstance(kind, Pointer):
                if id(argument) not in addresses:
                    addresses[id(argument)] = stack.enter_context(_address(argument, windows))
                values.append(np.int64(addresses[id(argument)]))
            else:
                values.append(register(kind).numpy.type(kind.numpy.type(argument)))
        values += [np.int32(extent) for extent in shape]
        needed = self.scratch_bytes * math.prod(shape)
        with _address(status, windows) as state, _room(needed, windows) as room:
            values += [np.int64(state), np.int64(room)]
            launch(
                self.function,
                (math.prod(shape),),
                (self.threads,),
                *values,
                touches=windows,
                shared_bytes=self.shared_bytes,
            )
        if status[0]:
            raise KernelAssertionError(self._generated.messages[status[0] - 1])


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    extents = tuple(grid)
    whole = 1 <= len(extents) <= 3 and all(
        isinstance(n, int | np.integer) and n >= 0 for n in extents
    )
    if not whole or math.prod(extents) > _MOST_BLOCKS:
        raise ValueError(
            f"grid must be one to three extents from 0 with at most {_MOST_BLOCKS} programs, "
            f"but got {extents}"
        )
    x, y, z = (*map(int, extents), 1, 1)[:3]
    return x, y, z


def _check(name: str, arguments: Sequence[Argument], kinds: Sequence[DType | Pointer]) -> None:
    for number, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
        whole = isinstance(argument, int | np.integer)
        if isinstance(kind, DType):
            fits = whole or (kind.is_float and isinstance(argument, float | np.floating))
            if not (fits or isinstance(argument, bool | np.bool_)):
                raise TypeError(
                    f"argument {number} of {name} must be a number of dtype {kind}, "
                    f"but got {type(argument).__name__}"
                )
            _check_range(f"argument {number} of {name}", argument, kind)
            continue
        if whole and not isinstance(argument, bool):
            continue
        dtype = _dtype(argument)
        if dtype is None:
            raise TypeError(
                f"argument {number} of {name} must be an array or an address, "
                f"but got {type(argument).__name__}"
            )
        element = kind.element
        expected = np.dtype(np.int64) if isinstance(element, Pointer) else element.numpy
        # Interfaces of arrays know no bf16 nor fp8, which travel as integers of their width.
        alike = dtype.kind in "iuV" and expected.kind in "iuV"
        if dtype != expected and not (alike and dtype.itemsize == expected.itemsize):
            raise TypeError(
                f"argument {number} of {name} must have dtype {expected}, but got {dtype}"
            )


def _check_range(what: str, argument: Any, kind: DType) -> None:
    if kind.is_integer:
        least, greatest = kind.limits
        if not least <= int(argument) <= greatest:
            raise ValueError(f"{what} must be from {least} to {greatest}, but got {argument}")
    elif kind.kind is Kind.BOOL and argument not in (0, 1):
        raise ValueError(f"{what} must be 0 or 1, but got {argument}")


def _dtype(array: object) -> np.dtype[np.generic] | None:
    if isinstance(array, np.ndarray):
        dtype: np.dtype[np.generic] = array.dtype
        return dtype
    interface = getattr(array, "__cuda_array_interface__", None)
    return None if interface is None else np.dtype(interface["typestr"])


@contextlib.contextmanager
def _address(array: Argument, windows: list[tuple[int, int]]) -> Iterator[int]:
    """Provide an array's address in memory that kernels reach, and copy back what they wrote."""
    from emu.kernels.cuda.device import SIMULATED

    if isinstance(array, int | np.integer):
        yield int(array)
        return
    assert not isinstance(array, float)  # refused before
    if not isinstance(array, np.ndarray):
        yield _data(array)
        return
    if SIMULATED:
        address = array.ctypes.data
        low, high = np.lib.array_utils.byte_bounds(array)
        windows.append((low, high))
        yield address
        return
    from numba import cuda

    # As bytes: a device array of Numba's has neither bf16 nor fp8.
    low, high = np.lib.array_utils.byte_bounds(array)
    span = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    copy = cuda.to_device(span)
    yield _data(copy) + array.ctypes.data - low
    if array.flags.writeable:
        copy.copy_to_host(span)


@contextlib.contextmanager
def _room(nbytes: int, windows: list[tuple[int, int]]) -> Iterator[int]:
    """Provide the address of uninitialised memory; 0 for no bytes."""
    from emu.kernels.cuda.device import SIMULATED

    if not nbytes:
        yield 0
    elif SIMULATED:
        with _address(np.zeros(nbytes // 8, np.int64), windows) as address:
            yield address
    else:
        from numba import cuda

        room = cuda.device_array(nbytes, np.uint8)
        yield _data(room)


def _data(array: DeviceArray) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def compile_kernel(module: Module, *, threads: int = 128) -> CudaKernel:
    """Compile a module of the tile IR for CUDA; needs neither a GPU nor CUDA's tools.

    Args:
        module: Its first function is the kernel; it is not changed.
        threads: Threads of a block: a power of two up to 1024.

    Raises:
        ValueError: ``threads`` is something else.
        NotCoveredError: The module has something that is not covered; names it, its place and types.
        TileError: The module breaks a rule of the tile IR.
    """
    if not (type(threads) is int and 1 <= threads <= _MOST_THREADS) or threads & (threads - 1):
        raise ValueError(
            f"threads must be a power of two from 1 to {_MOST_THREADS}, but got {threads}"
        )
    return CudaKernel(generate(module, threads), threads)
