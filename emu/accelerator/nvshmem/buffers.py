"""``Buffer``: bytes of symmetric memory, of this PE or another, as ``cuda.core`` has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from emu.accelerator.annotations import Tensor
from emu.accelerator.nvshmem.context import Allocation
from emu.accelerator.nvshmem.errors import NvshmemInvalid
from emu.kernels.core.messages import shown


class NvshmemResource:
    """The source of buffers.

    Attributes:
        device_id: Index of the device.
    """

    is_device_accessible = True
    is_host_accessible = False

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id


class Buffer:
    """Bytes in symmetric memory. ``torch.as_tensor`` makes a tensor over them.

    Attributes:
        handle: Address of the first byte.
        size: Number of bytes.
        memory_resource: What they come from.
        allocation: The allocation that they lie in; None: not known.
        tensor: The tensor that the buffer was made from; None: from none.
    """

    def __init__(
        self,
        handle: int,
        size: int,
        memory_resource: Any,
        *,
        allocation: Allocation | None = None,
        tensor: Tensor | None = None,
    ) -> None:
        self.handle = handle
        self.size = size
        self.memory_resource = memory_resource
        self.allocation = allocation
        self.tensor = tensor

    @classmethod
    def from_handle(cls, ptr: int, size: int, mr: Any = None) -> Buffer:
        """Return a buffer at an address.

        Args:
            ptr: The address.
            size: Number of bytes.
            mr: A buffer's ``memory_resource``.

        Raises:
            NvshmemInvalid: One of both is no number.
        """
        try:
            return cls(int(ptr), int(size), mr)
        except (TypeError, ValueError):
            raise NvshmemInvalid(
                f"Buffer.from_handle: ptr and size must be integers, but got {shown(ptr)} and {shown(size)}"
            ) from None

    @property
    def device_id(self) -> int:
        """Index of the device; -1 of a buffer without a memory resource."""
        return int(getattr(self.memory_resource, "device_id", -1))

    is_device_accessible = True
    is_host_accessible = False

    @property
    def _mnff(self) -> SimpleNamespace:
        """The same fields, where programs that were written for early releases of ``cuda.core`` read them."""
        return SimpleNamespace(ptr=self.handle, size=self.size, mr=self.memory_resource)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.handle, False),
            "shape": (self.size,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"Buffer(handle={self.handle:#x}, size={self.size})"
