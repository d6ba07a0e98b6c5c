"""Questions to the device that a program is compiled for: an emulated one is none of NVIDIA's or AMD's."""

from __future__ import annotations

from typing import Any

from emu.triton.language.constants import constexpr


def current_target() -> Any:
    """Return nothing: there is no GPU."""
    return constexpr(None)


def is_cuda() -> constexpr:
    """Whether it is NVIDIA's: no."""
    return constexpr(False)


def cuda_capability_geq(major: Any, minor: Any = 0) -> constexpr:
    """Whether it is NVIDIA's of at least that compute capability: no."""
    del major, minor
    return constexpr(False)


def is_hip() -> constexpr:
    """Whether it is AMD's: no."""
    return constexpr(False)


def is_hip_cdna3() -> constexpr:
    """Whether it is AMD's of that kind: no."""
    return constexpr(False)


def is_hip_cdna4() -> constexpr:
    """Whether it is AMD's of that kind: no."""
    return constexpr(False)


def is_hip_gfx1250() -> constexpr:
    """Whether it is AMD's of that kind: no."""
    return constexpr(False)
