"""Fused operators of matrix products and communication, and ``Hccl``, the API that they are made of."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.mc2.hccl import Hccl as Hccl

_HOME = {
    "Hccl": "emu.mc2.hccl",
}

__all__ = ["Hccl"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'emu.mc2' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
