"""The functions of ``triton.language.extra.libdevice`` under their other name."""

from __future__ import annotations

from typing import Any

from emu.triton.language.extra import libdevice as _libdevice


def __getattr__(name: str) -> Any:
    return getattr(_libdevice, name)
