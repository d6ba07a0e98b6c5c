"""What CUDA's programs ask about the GPU. A program is one thread here, but answers as the launch describes it."""

from __future__ import annotations

from typing import NoReturn

from emu.triton.language.constants import constexpr
from emu.triton.language.conversion import constant
from emu.triton.language.threads import warps_of_launch
from emu.triton.language.types import int32
from emu.triton.language.values import tensor
from emu.triton.language.variation import WARP_SIZE
from emu.triton.source import asking_num_warps


@asking_num_warps
def num_threads() -> constexpr:
    """Return the number of threads of a program: 32 for each of its warps.

    Raises:
        RuntimeError: As :func:`num_warps`.
    """
    return constexpr(WARP_SIZE * warps_of_launch("num_threads"))


@asking_num_warps
def num_warps() -> constexpr:
    """Return the number of warps of a program: what the launch gives as ``num_warps``, or 4.

    Raises:
        RuntimeError: The kernel reaches this function by something else than names, so that its key does not know.
    """
    return constexpr(warps_of_launch("num_warps"))


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
