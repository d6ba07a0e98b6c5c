"""``torch.cuda.MemPool`` and ``use_mem_pool``: pools have no effect, but for that of symmetric memory.

A pool routes the allocations of a thread. Torch's allocator of host memory knows no pools, so a function mode moves what a
call has made into symmetric memory before anybody has seen where it lies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from emu.accelerator.annotations import Args, DeviceLike, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import tag_of, tensors_in
from emu.accelerator.distributed.symmetric.memory import block_of
from emu.accelerator.graphs import graph_pool_handle
from emu.accelerator.patches import replace
from emu.accelerator.wrappers import PLAIN


class SymmetricAllocator:
    """What ``get_mempool_allocator`` returns.

    Args:
        make: Function that returns a tensor in new symmetric memory, of a shape, strides, a dtype and a device.
    """

    def __init__(self, make: Callable[..., Tensor]) -> None:
        self.make = make


class MemPool:
    """A memory pool: it counts nothing, as there is nothing that could be fragmented.

    Args:
        allocator: That of ``get_mempool_allocator``: tensors made in the pool are symmetric. Others have no effect.
        use_on_oom: Without effect.
        no_split: Without effect.
    """

    def __init__(
        self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        self.allocator = allocator
        self.id = graph_pool_handle()

    def use_count(self) -> int:
        """Return 1."""
        return 1

    def snapshot(self, include_traces: bool = True) -> list[object]:
        """Return an empty list: there are no segments."""
        return []


class _SymmetricPool(TorchFunctionMode):  # type: ignore[misc, unused-ignore] # Any without torch
    """Moves what calls make on CUDA devices into symmetric memory."""

    def __init__(self, allocator: SymmetricAllocator) -> None:
        super().__init__()
        self._make = allocator.make

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Iterable[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        """Run a call into torch, and move its results."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        results = [result] if isinstance(result, torch.Tensor) else result
        if isinstance(results, list | tuple):
            with torch._C.DisableTorchFunction():
                given = {_key(tensor) for tensor in tensors_in((*args, *kwargs.values()))}
                for tensor in tensors_in(results):
                    if type(tensor) in PLAIN and _key(tensor) not in given:
                        self._move(tensor)
        return result

    def _move(self, tensor: Tensor) -> None:
        device = tag_of(tensor)
        if device is None or device.type != "cuda" or tensor.layout is not torch.strided:
            return
        if tensor.is_meta or tensor.grad_fn is not None or block_of(tensor) is not None:
            return
        made = self._make(tensor.shape, tensor.stride(), tensor.dtype, device)
        made.copy_(tensor.detach())
        tensor.data = made


def _key(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike | None = None) -> Iterator[None]:
    """Let this thread's tensors on CUDA devices be made in a pool.

    Args:
        pool: The pool.
        device: Without effect: a tensor's own device counts.
    """
    allocator: Any = pool.allocator
    if not isinstance(allocator, SymmetricAllocator):
        yield
        return
    with _SymmetricPool(allocator):
        yield


def install() -> None:
    """Replace the pools of ``torch.cuda``, which ask CUDA's allocator."""
    for owner in (torch.cuda, torch.cuda.memory):
        replace(owner, "MemPool", MemPool, "its base is a function of CUDA builds")
        replace(owner, "use_mem_pool", use_mem_pool, "it asks CUDA's allocator")
