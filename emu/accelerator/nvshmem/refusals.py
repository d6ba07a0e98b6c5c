"""What is there on GPUs only, refused with the reason."""

from __future__ import annotations

from typing import NoReturn

from emu.accelerator.errors import NotEmulatedError


def refuse_multicast(op: str) -> NoReturn:
    """Refuse an address that stands for the memory of all members.

    Raises:
        NotEmulatedError: Always.
    """
    raise NotEmulatedError(
        f"{op} is not emulated: there is no multicast memory here, as on machines without NVLink SHARP; "
        "nvshmem.bindings.nvshmem.mc_ptr() says so by 0"
    )
