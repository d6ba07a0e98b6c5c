"""Queries about the target, which is neither NVIDIA's nor AMD's."""

from __future__ import annotations

from emu.triton.language.constants import ConstexprLike, constexpr


def current_target() -> constexpr:
    """Return None: there is no GPU."""
    return constexpr(None)


def is_cuda() -> constexpr:
    """Return False: the target is not NVIDIA's."""
    return constexpr(False)


def cuda_capability_geq(major: ConstexprLike[int], minor: ConstexprLike[int] = 0) -> constexpr:
    """Return False: the target is not NVIDIA's."""
    del major, minor
    return constexpr(False)


def is_hip() -> constexpr:
    """Return False: the target is not AMD's."""
    return constexpr(False)


def is_hip_cdna3() -> constexpr:
    """Return False: the target is not AMD's."""
    return constexpr(False)


def is_hip_cdna4() -> constexpr:
    """Return False: the target is not AMD's."""
    return constexpr(False)


def is_hip_gfx1250() -> constexpr:
    """Return False: the target is not AMD's."""
    return constexpr(False)
