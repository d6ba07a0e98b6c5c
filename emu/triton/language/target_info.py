"""Queries about the target: the emulated GPU where torch has emulated ``cuda`` devices, else the CPU."""

from __future__ import annotations

from typing import Any

from emu.triton.active import driver
from emu.triton.source import constexpr_function


@constexpr_function
def current_target() -> Any:
    """Return the ``GPUTarget`` that kernels are compiled for, as programs see it."""
    return driver.active.get_current_target()


@constexpr_function
def is_cuda() -> bool:
    """Return whether the target is one of NVIDIA's."""
    return bool(driver.active.get_current_target().backend == "cuda")


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Return whether the target is one of NVIDIA's, of a compute capability of at least ``major.minor``."""
    target = driver.active.get_current_target()
    return bool(target.backend == "cuda" and target.arch >= 10 * major + minor)


@constexpr_function
def is_hip() -> bool:
    """Return False: no device of AMD is emulated."""
    return False


@constexpr_function
def is_hip_cdna3() -> bool:
    """Return False: no device of AMD is emulated."""
    return False


@constexpr_function
def is_hip_cdna4() -> bool:
    """Return False: no device of AMD is emulated."""
    return False


@constexpr_function
def is_hip_gfx1250() -> bool:
    """Return False: no device of AMD is emulated."""
    return False


@constexpr_function
def is_xpu() -> bool:
    """Return False: no device of Intel is emulated."""
    return False


@constexpr_function
def is_xpu_cri() -> bool:
    """Return False: no device of Intel is emulated."""
    return False
