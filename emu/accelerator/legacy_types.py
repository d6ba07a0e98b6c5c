"""Legacy tensor types such as ``torch.cuda.FloatTensor``, which old scripts call and test with."""

from __future__ import annotations

from typing import Any

import torch

from emu.accelerator.annotations import DeviceLike
from emu.accelerator.device_tags import emulated_device
from emu.accelerator.patches import replace

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}

TYPES: dict[str, LegacyType] = {}
"""Legacy types by full name, such as ``torch.cuda.FloatTensor``."""


class LegacyType(type):
    """Tensor type that stands for a device type and a dtype."""

    kind: str
    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.Tensor) or instance.dtype is not cls.dtype:
            return False
        tag = emulated_device(instance)
        return tag is not None and tag.type == cls.kind

    def __call__(cls, *args: Any, device: DeviceLike | None = None) -> torch.Tensor:
        """Make a tensor: uninitialised of a size, or of the elements of a sequence."""
        where = torch.device(cls.kind) if device is None else torch.device(device)
        if where.type != cls.kind:
            raise RuntimeError(
                f"legacy constructor expects device type: {cls.kind} but device type: {where.type} "
                "was passed"
            )
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.as_tensor(args[0], dtype=cls.dtype, device=where)
        size = args[0] if args and isinstance(args[0], torch.Size) else args
        return torch.empty(size or (0,), dtype=cls.dtype, device=where)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def make_types(kind: str) -> dict[str, LegacyType]:
    """Return the types of a device type by name."""
    made = {}
    for name, dtype in _DTYPES.items():
        body = {"kind": kind, "dtype": dtype, "is_cuda": kind == "cuda", "is_sparse": False}
        made[name] = LegacyType(name, (), {**body, "__module__": f"torch.{kind}"})
        TYPES[f"torch.{kind}.{name}"] = made[name]
    return made


def install() -> None:
    """Make ``torch.set_default_tensor_type`` accept the types."""
    set_type = torch.set_default_tensor_type

    def set_default_tensor_type(t: type | str) -> None:
        wanted = TYPES.get(t) if isinstance(t, str) else t
        if isinstance(wanted, LegacyType):
            torch.set_default_dtype(wanted.dtype)
            torch.set_default_device(wanted.kind)
        else:
            torch.set_default_device(None)
            set_type(t)

    replace(
        torch, "set_default_tensor_type", set_default_tensor_type, "C++ knows the CPU's types only"
    )
