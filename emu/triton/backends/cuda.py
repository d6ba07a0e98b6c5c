"""The backend ``"cuda"``: one program of the grid is one block of threads, on a GPU or in Numba's simulator."""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from emu.tile.ir import Module, Operation
from emu.tile.ops import Code
from emu.tile.packing import slot
from emu.tile.types import Pointer, element_of
from emu.triton.runtime.arguments import Packed, torch_guard
from emu.triton.runtime.backends import Backend, DeviceLaunch, Launch, PassedTensor, register

if TYPE_CHECKING:
    from emu.tile.cuda import CudaKernel

WARP = 32
SIMULATED_THREADS = 16
"""Threads of a block in the simulator, where each costs half a millisecond."""

_EVERYTHING = (0, 1 << 64)


class CudaExecutable:
    """A module as kernels for CUDA, one for each number of warps.

    Args:
        module: The module; it is not changed.
    """

    def __init__(self, module: Module) -> None:
        arguments = module.kernel.body.arguments
        self._module = module
        self._name = module.kernel.name
        self._pointers = [isinstance(a.type, Pointer) for a in arguments]
        self._slots = struct.Struct("".join(slot(a.type) for a in arguments))
        self._stray = _first_stray(module)
        self._kernel(WARP * 4)  # what is not covered is said before the first launch

    @functools.cache  # noqa: B019 - as many as there are numbers of warps, and they live as long as this does
    def _kernel(self, threads: int) -> CudaKernel:
        from emu.tile.cuda import compile_kernel

        return compile_kernel(self._module, threads=threads)

    @property
    def source(self) -> str:
        """The Python module for Numba, for 128 threads a block."""
        return self._kernel(WARP * 4).source

    def bind(self, threads: int) -> Launch:
        """Refuse: a launch must say which memory it is given.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "a kernel of backend='cuda' must be launched with its tensors: kernel[grid](...)"
        )

    def bind_device(self, warps: int) -> DeviceLaunch:
        """Return a function that runs it on blocks of so many warps."""
        from emu.kernels.cuda.device import SIMULATED, require_device

        require_device()
        return functools.partial(
            self._launch, self._kernel(SIMULATED_THREADS if SIMULATED else WARP * warps)
        )

    def _launch(
        self,
        kernel: CudaKernel,
        grid: tuple[int, int, int],
        values: Sequence[Packed],
        tensors: Sequence[PassedTensor | None],
    ) -> None:
        from emu.kernels.cuda.device import SIMULATED

        # Numbers become what an argument of their dtype holds.
        numbers = list(self._slots.unpack(self._slots.pack(*values)))
        if SIMULATED:
            _check_in_host_memory(tensors)
            kernel.launch(numbers, grid, windows=self._windows(tensors))
            return
        with self._on_device(numbers, tensors):
            kernel.launch(numbers, grid)

    def _windows(self, tensors: Sequence[PassedTensor | None]) -> list[tuple[int, int]]:
        """Return the memory that the kernel may touch in the simulator."""
        from emu.triton.runtime.storages import find_storage, live_storages, merged

        passed = [t for t, p in zip(tensors, self._pointers, strict=True) if p]
        if any(t is None for t in passed):
            return [_EVERYTHING]
        found = [find_storage(t.value) for t in passed if t is not None]
        if any(s is None for s in found):
            return [_EVERYTHING]
        known = [s for s in found if s is not None]
        if self._stray is not None:  # addresses from memory may reach all that the program holds
            known += live_storages()
        return [(s.start, s.end) for s in merged(known)]

    @contextlib.contextmanager
    def _on_device(
        self, numbers: list[Any], tensors: Sequence[PassedTensor | None]
    ) -> Iterator[None]:
        """Replace addresses in host memory by those of copies on the GPU, which are copied back at the end.

        Raises:
            ValueError: The memory of an argument is not known, or the kernel takes addresses from memory.
        """
        from emu.tile.cuda.copies import copied
        from emu.triton.runtime.storages import find_storage, merged

        spans = {}
        for number, tensor in enumerate(tensors):
            if tensor is None or not self._pointers[number] or not numbers[number]:
                continue
            if is_on_device(tensor.value):
                continue
            storage = find_storage(tensor.value)
            if storage is None:
                raise ValueError(
                    f"{tensor.name} of kernel {self._name} must be an array or a tensor, so that its memory "
                    f"can be copied to the GPU, but got {type(tensor.value).__name__}"
                )
            spans[number] = storage, tensor.is_written
        if spans and self._stray is not None:
            where = f"{self._stray.location}: " if self._stray.location else ""
            raise ValueError(
                f"{where}kernel {self._name} takes addresses from memory or from integers "
                f"({self._stray.code.name.lower()}), which a GPU cannot follow into host memory: pass tensors "
                "of the GPU"
            )
        whole = merged(storage for storage, _ in spans.values())
        written = [s for s, is_written in spans.values() if is_written]
        blocks = [
            (s.start, s.end, any(s.start <= w.start and w.end <= s.end for w in written))
            for s in whole
        ]
        with copied(blocks) as places:
            for number, (storage, _) in spans.items():
                for (start, end, _), place in zip(blocks, places, strict=True):
                    if start <= storage.start and storage.end <= end:
                        numbers[number] += place - start
            yield


def _first_stray(module: Module) -> Operation | None:
    """Return the first operation that makes a pointer of something that is no argument; None if there is none."""
    for function in module.functions.values():
        for operation in function.body.walk():
            if not any(isinstance(element_of(r.type), Pointer) for r in operation.results):
                continue
            if operation.code in (Code.LOAD, Code.ATOMIC_RMW, Code.ATOMIC_CAS):
                return operation
            if operation.code in (Code.CAST, Code.BITCAST):
                source = operation.operands[0].type
                if not isinstance(element_of(source), Pointer):
                    return operation
    return None


def is_on_device(value: object) -> bool:
    """Return whether a tensor's memory is that of a GPU."""
    base = getattr(value, "base", value) if type(value).__name__ == "TensorWrapper" else value
    with torch_guard():  # or a tensor of an emulated device says that it is there
        if hasattr(base, "is_cpu"):
            return not base.is_cpu
    return hasattr(base, "__cuda_array_interface__")


def _check_in_host_memory(tensors: Sequence[PassedTensor | None]) -> None:
    for tensor in tensors:
        if tensor is not None and is_on_device(tensor.value):
            raise ValueError(
                f"{tensor.name} must be in host memory, as kernels run in Numba's simulator "
                f"(NUMBA_ENABLE_CUDASIM), but got one on {getattr(tensor.value, 'device', 'a device')}"
            )


class CudaBackend(Backend):
    """Compiles kernels to Python source with ``@cuda.jit``, which Numba compiles when they are launched."""

    name = "cuda"
    takes_device_tensors = True

    def compile(self, module: Module, contract: bool) -> CudaExecutable:
        """Make a module executable; products and sums are never contracted.

        Raises:
            NotCoveredError: The module has an operation that CUDA kernels cannot have.
        """
        return CudaExecutable(module)

    def text(self, name: str, module: Module, contract: bool) -> str | None:
        """Return the Python source (``"numba"``), for 128 threads a block."""
        return CudaExecutable(module).source if name == "numba" else None


register(CudaBackend())
