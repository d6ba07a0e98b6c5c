"""Devices as CUDA's Python bindings name them."""

from __future__ import annotations

import torch


class Device:
    """A device by its number.

    Attributes:
        device_id: The number.
    """

    def __init__(self, device_id: int | None = None) -> None:
        self.device_id = torch.cuda.current_device() if device_id is None else int(device_id)

    def set_current(self) -> None:
        """Make it the current device."""
        torch.cuda.set_device(self.device_id)
