"""What CUDA's programs ask about the GPU: one program is one thread of one warp here."""

from __future__ import annotations

from typing import NoReturn

from emu.triton.language.constants import constexpr
from emu.triton.language.conversion import constant
from emu.triton.language.types import int32
from emu.triton.language.values import tensor


def num_threads() -> constexpr:
    """Return the number of threads of a program: 1."""
    return constexpr(1)


def num_warps() -> constexpr:
    """Return the number of warps of a program: 1."""
    return constexpr(1)


def smid() -> tensor:
    """Return the number of the multiprocessor that runs the program: always 0, int32."""
    return constant(0, int32)


def globaltimer() -> NoReturn:
    """Refuse: a kernel has no clock here.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "globaltimer reads the clock of a GPU, which kernels do not have here; time the launch from outside"
    )


def gdc_wait() -> None:
    """Wait for the kernels before this one: they have ended, as launches keep their order."""


def gdc_launch_dependents() -> None:
    """Let the next kernel begin: it begins after this one in any case."""
