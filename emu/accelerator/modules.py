"""Functions of ``torch.cuda``, ``torch.npu`` and ``torch.accelerator``, replaced or provided."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
import torch.cuda.nvtx

from emu.accelerator import graphs, mstx
from emu.accelerator.annotations import DeviceLike, Namespace
from emu.accelerator.device_tags import (
    accelerator_type,
    current_device,
    device_count,
    set_current_device,
)
from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.import_hooks import while_imported
from emu.accelerator.patches import record, replace, replace_all
from emu.accelerator.runtime import index_of, make_namespace, synchronize

CUDA_VERSION = "12.4"
"""Value of ``torch.version.cuda``: a release with the NCCL of ``torch.cuda.nccl.version``."""


_PARTS = (torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs)
"""Modules from which scripts import some of the functions of ``torch.cuda``."""


def install() -> None:
    """Give both device types their modules.

    ``torch.npu`` is registered as PyTorch intends; ``torch.cuda`` exists in every build, so its names are
    replaced. Everything that is not replaced begins with CUDA's initialisation, which raises an error here.
    """
    for name, value in make_namespace("cuda").items():
        for owner in (torch.cuda, *_PARTS):
            if owner is torch.cuda or hasattr(owner, name):
                replace(owner, name, value, "the module exists in every build")
    graphs.install()
    replace(torch.cuda, "_lazy_init", _refuse_cuda, "whatever is not emulated begins with it")
    replace(torch._C, "__getattr__", _missing, "functions of CUDA builds are named when missed")
    # hasattr() must stay False for what CPU builds lack: torch and scripts choose their path by it.
    for name in _BETWEEN_DEVICES:
        refusal = functools.partial(_refuse_between, name)
        replace(torch._C, name, refusal, "DataParallel calls functions of CUDA builds")
    reason = "libraries of kernels ask for the stream"
    replace(torch._C, "_cuda_getCurrentRawStream", _raw_stream, reason)
    # Asked before a compiled function is, or is not, made a CUDA graph.
    replace(torch._C, "_cuda_cudaCachingAllocator_is_enabled", lambda: True, "CUDA builds have it")
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        replace(torch.cuda.nvtx, name, lambda *_, **__: 0, "NVTX is not there")
    replace(torch.version, "cuda", CUDA_VERSION, "scripts ask for it")
    replace(torch.backends.cuda, "is_built", _is_built, "scripts and tests ask for it")
    # It takes functions of the allocator of such a build, else stand-ins of its own.
    while_imported("torch._inductor.cudagraph_trees", _not_built)
    for name in _WORKSPACES:
        replace(torch._C, name, lambda: None, "torch calls them in CUDA builds; there are none")
    replace(torch.backends.cudnn, "is_acceptable", lambda tensor: False, "cuDNN is not there")
    npu = types.ModuleType("torch.npu", "The functions of an emulated NPU.")
    for name, value in make_namespace("npu").items():
        setattr(npu, name, value)
    vars(npu)["mstx"] = mstx
    vars(npu)["get_amp_supported_dtype"] = lambda: [torch.float16, torch.bfloat16]
    if hasattr(torch, "npu"):  # what an earlier uninstallation has left
        delattr(torch, "npu")
    torch._register_device_module("npu", npu)
    record("torch.npu", "torch registers a module for the device", _leave_npu)
    replace_all(torch.accelerator, _accelerator(), "C++ knows of no accelerator")


_WORKSPACES = (
    "_cuda_clearCublasWorkspaces",
    "_cuda_resetCublasWorkspaceSize",
    "_cuda_resetCublasLtWorkspaceSize",
)
"""Functions that manage the memory of cuBLAS."""


class _Built:
    answer = True


def _is_built() -> bool:
    """Return True: programs take the build for one with CUDA."""
    return _Built.answer


@contextlib.contextmanager
def _not_built() -> Iterator[None]:
    _Built.answer = False
    try:
        yield
    finally:
        _Built.answer = True


def _leave_npu() -> None:
    """Put a module that has no devices in the place of ours.

    To torch the device stays the accelerator, as its name does: ``torch.accelerator.is_available()`` asks the module,
    and ``torch.manual_seed`` wants to seed it.
    """
    left = types.ModuleType("torch.npu", "The functions of an NPU that is not there any more.")
    vars(left).update(is_available=lambda: False, device_count=lambda: 0)
    vars(left).update(_is_in_bad_fork=lambda: False, manual_seed_all=lambda seed: None)
    sys.modules["torch.npu"] = left
    setattr(torch, "npu", left)  # noqa: B010 - an attribute that type checkers do not know


class MissingFunctionError(NotEmulatedError, AttributeError):
    """A function in C++ that only torch's builds for CUDA have; ``hasattr`` stays False."""


_ONLY_WITH_CUDA = ("_cuda", "_cudnn", "_nccl")
_BETWEEN_DEVICES = (
    "_broadcast",
    "_broadcast_coalesced",
    "_broadcast_out",
    "_gather",
    "_gather_out",
    "_scatter",
    "_scatter_out",
)
"""Functions that ``DataParallel`` calls; CUDA builds have them even without a GPU."""


def _refuse_between(name: str, *_: object, **__: object) -> NoReturn:
    raise NotEmulatedError(
        f"torch._C.{name} is not emulated: DataParallel is made of such functions"
    )


def _raw_stream(device_index: int) -> int:
    """Return the handle of the current stream of a CUDA device."""
    return int(torch.cuda.current_stream(device_index).cuda_stream)


def _missing(name: str) -> NoReturn:
    """Raise the error for a missing attribute of ``torch._C``; name those that CUDA builds have."""
    if name.startswith(_ONLY_WITH_CUDA):
        raise MissingFunctionError(
            f"torch._C.{name} is not emulated: it is a function of CUDA builds"
        )
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


def _refuse_cuda() -> NoReturn:
    raise NotEmulatedError(
        "this function of CUDA is not emulated: it was reached where no torch function mode sees the "
        "call, or has no counterpart on a CPU"
    )


def _module() -> Any:
    return getattr(torch, accelerator_type())


class _DeviceIndex:
    """Context in which a device of the accelerator is current: ``torch.accelerator.device_index``; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            kind = accelerator_type()
            self.prev_idx = current_device(kind)
            set_current_device(kind, index_of(kind, self.idx))

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            set_current_device(accelerator_type(), self.prev_idx)


def _accelerator() -> Namespace:
    def current_accelerator(check_available: bool = False) -> torch.device:
        return torch.device(accelerator_type())

    def set_device_index(device: DeviceLike, /) -> None:
        kind = accelerator_type()
        set_current_device(kind, index_of(kind, device))

    return {
        "is_available": lambda: True,
        "device_count": lambda: device_count(),
        "current_accelerator": current_accelerator,
        "current_device_index": lambda: current_device(accelerator_type()),
        "current_device_idx": lambda: current_device(accelerator_type()),
        "set_device_index": set_device_index,
        "set_device_idx": set_device_index,
        "device_index": _DeviceIndex,
        "synchronize": lambda device=None, /: synchronize(device),
        "current_stream": lambda device=None: _module().current_stream(device),
        "set_stream": lambda stream: _module().set_stream(stream),
        "empty_cache": lambda: None,
        "empty_host_cache": lambda: None,
        "get_memory_info": lambda device_index=None, /: _module().mem_get_info(device_index),
    } | {name: _of_module(name) for name in _ABOUT_MEMORY}


_ABOUT_MEMORY = (
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
)


def _of_module(name: str) -> Callable[[DeviceLike | None], object]:
    """Return a function that calls its namesake in the script's device module."""

    def call(device_index: DeviceLike | None = None, /) -> object:
        return getattr(_module(), name)(device_index)

    call.__name__ = call.__qualname__ = name
    return call
