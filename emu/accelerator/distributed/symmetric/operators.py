"""Registration: the class, the pools and the operators of symmetric memory, put where torch looks for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C import _distributed_c10d  # pyright: ignore[reportAttributeAccessIssue]

from emu.accelerator.annotations import Args, Kwargs, TorchFunction
from emu.accelerator.distributed.symmetric import (
    all_to_all,
    device_functions,
    links,
    one_sided,
    pools,
    reductions,
    stream_writes,
)
from emu.accelerator.distributed.symmetric.handle import SymmetricMemory, adopt_pad_size
from emu.accelerator.import_hooks import after_import
from emu.accelerator.mode import HANDLERS, calling_back, on_stack
from emu.accelerator.patches import record, replace

_MODULE = "torch.distributed._symmetric_memory"
_FUSED = (
    "fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul",
    "fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter",
    "_low_contention_all_gather",
    "_low_contention_reduce_scatter",
)
"""Operators that torch has written in Python over handles, for CUDA; the function has this name behind an underscore."""


def install() -> None:
    """Give torch the class and the pools now, and the operators once a script imports torch's module of them."""
    original: Any = getattr(_distributed_c10d, "_SymmetricMemory", None)
    if original is None:  # a torch before symmetric memory
        return
    adopt_pad_size(getattr(original, "signal_pad_size", None))
    reason = "a build for the CPU has no symmetric memory"
    replace(_distributed_c10d, "_SymmetricMemory", SymmetricMemory, reason)
    replace(_distributed_c10d, "_is_nvshmem_available", lambda: True, reason)
    replace(_distributed_c10d, "_detect_dma_connectivity", links.detect, reason)
    pools.install()
    device_functions.install()
    after_import(_MODULE, _provide)


def _provide(module: Any) -> None:
    if module._SymmetricMemory is not SymmetricMemory:
        replace(module, "_SymmetricMemory", SymmetricMemory, "it was imported before")
    library = torch.library.Library("symm_mem", "IMPL", "CPU")
    for name, kernel in _kernels(module):
        if hasattr(torch.ops.symm_mem, name):
            library.impl(name, kernel)
    record("torch.ops.symm_mem", "torch has these operators for CUDA only", library._destroy)
    _handle_objects()


def _kernels(module: Any) -> Iterable[tuple[str, Callable[..., Any]]]:
    """Yield the operators that torch may have, with kernels for host memory."""
    yield from ((each.__name__, each) for each in reductions.OPERATORS)
    yield from ((each.__name__, each) for each in all_to_all.OPERATORS)
    yield from one_sided.OPERATORS.items()
    yield "memset32_", stream_writes.memset32
    yield "stream_write_value32_", stream_writes.stream_write_value32
    yield "_async_input_mm", stream_writes.async_input_mm
    for name in _FUSED:
        function = getattr(module, f"_{name}", None) or getattr(module, name, None)
        if function is not None:
            yield name, _inside(function)
    default = getattr(module, "_get_remote_tensors_default", None)
    if default is not None:
        yield "get_remote_tensors", _inside(default)


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function in Python that C++ calls, run inside the mode, which is off while it handles a call."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if on_stack():
            return function(*args, **kwargs)
        with torch._C._EnableTorchFunction(), calling_back():
            return function(*args, **kwargs)

    return run


# --- operators that take or return handles -----------------------------------------------------


def _rendezvous(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return SymmetricMemory.rendezvous(*args, **kwargs)


def _barrier(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    (handle,) = (*args, *kwargs.values())
    handle.barrier()
    return None


def _put_signal(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Store a tensor at the beginning of a peer's, and signal the peer."""
    bound = inspect.signature(lambda src, hdl, peer: None).bind(*args, **kwargs)
    source, handle, peer = bound.arguments.values()
    target = handle.get_remote_tensor(peer, source.shape, source.dtype)
    target.copy_(source)
    handle.put_signal(peer)
    return None


def _wait_signal(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    handle, peer = (
        inspect.signature(lambda hdl, peer: None).bind(*args, **kwargs).arguments.values()
    )
    handle.wait_signal(peer)
    return None


_OF_HANDLES = {
    "_rendezvous": _rendezvous,
    "_barrier": _barrier,
    "nccl_put_signal": _put_signal,
    "nccl_wait_signal": _wait_signal,
}


def _handle_objects() -> None:
    """Handle the calls that a dispatcher in C++ would refuse: our handles are no objects of C++."""
    for name, handler in _OF_HANDLES.items():
        packet = getattr(torch.ops.symm_mem, name, None)
        if packet is None:
            continue
        for function in (packet, packet.default):
            HANDLERS[function] = handler
            record(f"torch.ops.symm_mem.{name}", "handles are no objects of C++", _Forget(function))


class _Forget:
    """Takes a handler away again."""

    def __init__(self, function: TorchFunction) -> None:
        self.function = function

    def __call__(self) -> None:
        HANDLERS.pop(self.function, None)
