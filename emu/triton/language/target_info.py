"""Queries about the target, that of the driver in use: NVIDIA's where torch has emulated ``cuda`` devices."""

from __future__ import annotations

from typing import Any

from emu.triton.active_driver import driver
from emu.triton.source import constexpr_function


def current_target() -> Any:
    """Return the target of the driver in use, or None if there is no driver."""
    active = driver.active
    return None if active is None else active.get_current_target()


@constexpr_function
def is_cuda() -> bool:
    """Return whether the target is NVIDIA's."""
    target = current_target()
    return target is not None and target.backend == "cuda"


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Return whether the target is NVIDIA's and has at least a compute capability."""
    target = current_target()
    if target is None or target.backend != "cuda":
        return False
    return bool(target.arch >= 10 * major + minor)


@constexpr_function
def is_hip() -> bool:
    """Return whether the target is AMD's."""
    target = current_target()
    return target is not None and target.backend == "hip"


@constexpr_function
def is_hip_cdna3() -> bool:
    """Return whether the target is AMD's gfx942."""
    return _is_hip("gfx942")


@constexpr_function
def is_hip_cdna4() -> bool:
    """Return whether the target is AMD's gfx950."""
    return _is_hip("gfx950")


@constexpr_function
def is_hip_gfx1250() -> bool:
    """Return whether the target is AMD's gfx1250."""
    return _is_hip("gfx1250")


@constexpr_function
def is_xpu() -> bool:
    """Return whether the target is Intel's."""
    target = current_target()
    return target is not None and target.backend == "xpu"


@constexpr_function
def is_xpu_cri() -> bool:
    """Return whether the target is Intel's cri."""
    target = current_target()
    return target is not None and target.backend == "xpu" and target.arch["arch"] == "cri"


def _is_hip(arch: str) -> bool:
    target = current_target()
    return target is not None and target.backend == "hip" and target.arch == arch
