"""What belongs to a thread: its current devices, its streams, and the call that it is in."""

from __future__ import annotations

import threading
from typing import Any

import torch

TYPES = ("cuda", "npu")
"""The device types that are emulated."""


class _State(threading.local):
    """Each thread begins with device 0 of each type, and outside any call, as with CUDA.

    Attributes:
        running: The device of the call that is being handled.
        backward_on: The device on which the innermost running backward pass was started.
        current: The index of the current device of each type.
        streams: The streams that were entered, by type, innermost last.
    """

    def __init__(self) -> None:
        self.running: torch.device | None = None
        self.backward_on: torch.device | None = None
        self.current = dict.fromkeys(TYPES, 0)
        self.streams: dict[str, list[Any]] = {kind: [] for kind in TYPES}


state = _State()
