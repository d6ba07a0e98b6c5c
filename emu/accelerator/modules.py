"""``torch.cuda``, ``torch.npu`` and ``torch.accelerator``: their functions replaced or provided."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
import torch.cuda.nvtx

from emu.accelerator import NotEmulatedError
from emu.accelerator.marks import current_device, device_count, set_current_device
from emu.accelerator.runtime import make_namespace, synchronize


def install() -> None:
    """Give both device types their modules.

    ``torch.npu`` is registered as PyTorch provides for; ``torch.cuda`` exists in every build, so there
    names are replaced. Its initialisation, which all that is not replaced begins with, says what is wrong.
    """
    for name, value in make_namespace("cuda").items():
        setattr(torch.cuda, name, value)
    torch.cuda._lazy_init = _refuse_cuda
    torch._C.__getattr__ = _missing  # type: ignore[method-assign]
    for name in _BETWEEN_DEVICES:
        setattr(torch._C, name, functools.partial(_refuse_between, name))
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, lambda *_, **__: 0)
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    npu = types.ModuleType("torch.npu", "The functions of an emulated NPU.")
    for name, value in make_namespace("npu").items():
        setattr(npu, name, value)
    npu.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]  # type: ignore[attr-defined]
    torch._register_device_module("npu", npu)
    for name, value in _accelerator().items():
        setattr(torch.accelerator, name, value)


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
"""What ``DataParallel`` calls; builds for CUDA have these functions, also where there is no GPU."""


def _refuse_between(name: str, *_: Any, **__: Any) -> None:
    raise NotEmulatedError(
        f"torch._C.{name} is not emulated: DataParallel is made of such functions"
    )


def _missing(name: str) -> Any:
    """Answer for what ``torch._C`` has not: say so where a build for CUDA would have it."""
    if name.startswith(_ONLY_WITH_CUDA):
        raise MissingFunctionError(
            f"torch._C.{name} is not emulated: it is a function of CUDA builds"
        )
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


def _refuse_cuda() -> None:
    raise NotEmulatedError(
        "this function of CUDA is not emulated: it was reached where no torch function mode sees the "
        "call, or has no counterpart on a CPU"
    )


def _accelerator() -> dict[str, Any]:
    def current_accelerator(check_available: bool = False) -> torch.device:
        return torch.device("cuda")

    def set_device_index(device: Any, /) -> None:
        set_current_device(
            "cuda", device if isinstance(device, int) else torch.device(device).index
        )

    return {
        "is_available": lambda: True,
        "device_count": lambda: device_count(),
        "current_accelerator": current_accelerator,
        "current_device_index": lambda: current_device("cuda"),
        "current_device_idx": lambda: current_device("cuda"),
        "set_device_index": set_device_index,
        "set_device_idx": set_device_index,
        "synchronize": synchronize,
        "current_stream": lambda device=None: torch.cuda.current_stream(device),
        "set_stream": lambda stream: torch.cuda.set_stream(stream),
        "empty_cache": lambda: None,
    }
